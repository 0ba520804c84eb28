//! Unified diffs, applied by their text alone: line numbers drift, and what a hunk replaces must be there exactly once.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Changes of some files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch(Vec<Hunk>);

/// A text that takes the place of another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Hunk {
    path: String,
    old: String,
    new: String,
}

impl Patch {
    /// Reads a diff as `git diff` writes it. Files are neither made nor removed.
    pub fn parse(diff: &str) -> Result<Patch, String> {
        let mut hunks: Vec<Hunk> = Vec::new();
        let mut path = None;
        let mut lines = diff.lines();
        while let Some(line) = lines.next() {
            if let Some(old) = line.strip_prefix("--- a/") {
                let new = lines.next().and_then(|line| line.strip_prefix("+++ b/"));
                path = new.filter(|new| *new == old).map(str::to_owned);
            } else if line.starts_with("@@ ") {
                let path = path.clone().ok_or("a hunk without its file")?;
                hunks.push(Hunk { path, ..Hunk::default() });
            } else if !line.starts_with("diff ") && !line.starts_with("index ") {
                let hunk = hunks.last_mut().ok_or(format!("no hunk before {line:?}"))?;
                hunk.take(line)?;
            }
        }
        match hunks.iter().find(|hunk| hunk.old == hunk.new || hunk.old.is_empty()) {
            Some(hunk) => Err(format!("a hunk of {} changes nothing, or stands nowhere", hunk.path)),
            None if hunks.is_empty() => Err("no hunk".to_owned()),
            None => Ok(Patch(hunks)),
        }
    }

    /// The files that it changes.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|hunk| hunk.path.as_str())
    }

    /// The new texts of the files below `root` that it changes; an error names what does not fit.
    pub fn apply(&self, root: &Path) -> Result<BTreeMap<String, String>, String> {
        let mut texts: BTreeMap<String, String> = BTreeMap::new();
        for Hunk { path, old, new } in &self.0 {
            let text = match texts.remove(path) {
                Some(text) => text,
                None => fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"))?,
            };
            // Whole lines only.
            let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(end, _)| end + 1));
            let found: Vec<usize> = lines.filter(|start| text[*start..].starts_with(old.as_str())).collect();
            let [start] = found[..] else {
                return Err(format!("{path}: the text of a hunk stands there {} times:\n{old}", found.len()));
            };
            let changed = [&text[..start], new, &text[start + old.len()..]].concat();
            texts.insert(path.clone(), changed);
        }
        Ok(texts)
    }
}

impl Hunk {
    fn take(&mut self, line: &str) -> Result<(), String> {
        let (mark, text) = line.split_at_checked(1).unwrap_or((" ", ""));
        let add = |side: &mut String| {
            side.push_str(text);
            side.push('\n');
        };
        match mark {
            " " => {
                add(&mut self.old);
                add(&mut self.new);
            }
            "-" => add(&mut self.old),
            "+" => add(&mut self.new),
            _ => return Err(format!("no line of a hunk: {line:?}")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str =
        "--- a/f\n+++ b/f\n@@ -7,3 +7,3 @@ where\n one\n-two\n+2\n three\n@@ -20 +20,2 @@\n four\n+five\n";

    fn applied(diff: &str, text: &str) -> Result<String, String> {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("redlatch-patch-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).and_then(|()| fs::write(folder.join("f"), text)).expect("a folder for tests");
        let changed = Patch::parse(diff).and_then(|patch| patch.apply(&folder));
        let _ = fs::remove_dir_all(&folder);
        changed.map(|mut files| files.remove("f").expect("the file"))
    }

    #[test]
    fn hunks_find_their_lines_wherever_they_are() {
        assert_eq!(applied(DIFF, "zero\none\ntwo\nthree\nfour\n"), Ok("zero\none\n2\nthree\nfour\nfive\n".to_owned()));
        assert_eq!(applied(DIFF, "four\n\none\ntwo\nthree\n"), Ok("four\nfive\n\none\n2\nthree\n".to_owned()));
    }

    #[test]
    fn a_hunk_whose_text_is_gone_or_is_there_twice_does_not_apply() {
        for text in ["one\nthree\nfour\n", "one\ntwo\nthree\nfour\nfour\n", "none\ntwo\nthree\nfour\n"] {
            assert!(applied(DIFF, text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_diff_is_refused() {
        for diff in ["", "--- a/f\n+++ b/f\n", "@@ -1 +1 @@\n-a\n+b\n", "--- a/f\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n"] {
            assert!(Patch::parse(diff).is_err(), "{diff:?}");
        }
        assert!(Patch::parse("--- a/f\n+++ b/f\n@@ -1 +1 @@\n same\n").is_err());
    }
}
