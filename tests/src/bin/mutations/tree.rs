//! The copy of the sources in which mutations are made.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use redlatch_tests::Suite;
use redlatch_tests::mutations::{Mutation, Patch};

/// What is no source, wherever it is.
const LEFT_OUT: [&str; 4] = ["target", ".git", ".venv", "__pycache__"];

/// A copy of a workspace. Files keep their times as long as they keep their content, so that builds are incremental.
#[derive(Debug)]
pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    /// Makes `root` a copy of `source`, without the programs that no test of `mutations` starts.
    pub(crate) fn copy(source: &Path, root: PathBuf, mutations: &[Mutation]) -> Result<Tree, String> {
        let wanted = programs(source, mutations)?;
        let bins = source.join("tests/src/bin");
        let keep = |path: &Path| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let program = path.file_stem().is_some_and(|stem| wanted.contains(&*stem.to_string_lossy()));
            !LEFT_OUT.contains(&name.as_str()) && (path.parent() != Some(&bins) || program)
        };
        mirror(source, &root, &keep)?;
        Ok(Tree { root })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Runs `work` on the patched copy, and puts the files back.
    pub(crate) fn with<T>(&self, patch: &Patch, work: impl FnOnce() -> T) -> Result<T, String> {
        let mut before = Vec::new();
        for (path, text) in patch.apply(&self.root)? {
            let path = self.root.join(path);
            before.push((path.clone(), read(&path)?));
            write(&path, text.as_bytes())?;
        }
        let outcome = work();
        for (path, text) in before {
            write(&path, &text)?;
        }
        Ok(outcome)
    }
}

/// The programs that the test files name as cargo does: `env!("CARGO_BIN_EXE_worker")`.
fn programs(source: &Path, mutations: &[Mutation]) -> Result<BTreeSet<String>, String> {
    let mut wanted = BTreeSet::new();
    for mutation in mutations {
        let Suite::Integration(target) = mutation.test.suite() else { continue };
        let folder = source.join("tests/tests").join(target);
        let files = if folder.is_dir() { files(&folder)? } else { vec![folder.with_extension("rs")] };
        for file in files {
            let text = String::from_utf8_lossy(&read(&file)?).into_owned();
            let named = text.split("CARGO_BIN_EXE_").skip(1).filter_map(|rest| rest.split('"').next());
            wanted.extend(named.map(str::to_owned));
        }
    }
    Ok(wanted)
}

/// Makes the directory `to` as `from`, as far as `keep` says so.
fn mirror(from: &Path, to: &Path, keep: &dyn Fn(&Path) -> bool) -> Result<(), String> {
    fs::create_dir_all(to).map_err(|error| format!("{}: {error}", to.display()))?;
    let kept: Vec<PathBuf> = entries(from)?.into_iter().filter(|path| keep(path)).collect();
    for path in &kept {
        let copy = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            mirror(path, &copy, keep)?;
        } else {
            let text = read(path)?;
            if read(&copy).ok().as_ref() != Some(&text) {
                write(&copy, &text)?;
            }
        }
    }
    for copy in entries(to)? {
        let name = copy.file_name();
        if !kept.iter().any(|path| path.file_name() == name) && name.is_none_or(|name| name != "target") {
            let removed = if copy.is_dir() { fs::remove_dir_all(&copy) } else { fs::remove_file(&copy) };
            removed.map_err(|error| format!("{}: {error}", copy.display()))?;
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    Ok(entries(folder)?.into_iter().filter(|path| path.is_file()).collect())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &[u8]) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
