//! From a lock's name to its Redis keys.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::options;

use super::Role;

const MARK: &str = ":redlatch:";

/// A lock's key, the name within it, and the way to its siblings, which live in the same cluster slot.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Shared with the hold table: the one copy of key and name.
    text: Arc<str>,
    /// Where the name begins.
    name: u32,
    tagged: bool,
}

impl Key {
    /// The key of lock `name`: `prefix` + `name`.
    ///
    /// Refused: an empty or overlong name; a key that contains `:redlatch:`, which could be another lock's
    /// sibling; a key all in braces, whose siblings would be those of the same key without them.
    pub(crate) fn new(prefix: &str, name: &str) -> Result<Key> {
        if name.is_empty() || name.len() > options::MAX_NAME_BYTES {
            let expected = format!("a name of 1 to {} bytes of UTF-8", options::MAX_NAME_BYTES);
            return Err(Error::config("name", format_args!("<{} bytes>", name.len()), expected));
        }
        let text = format!("{prefix}{name}");
        if text.contains(MARK) {
            let expected = format!("a name that does not contain {MARK:?}, which marks redlatch's own keys");
            return Err(Error::config("name", format_args!("{name:?}"), expected));
        }
        if text.starts_with('{') && text.ends_with('}') {
            let expected = "a key that is not all in braces: set a key_prefix or add to the name";
            return Err(Error::config("name", format_args!("{name:?}"), expected));
        }
        let tagged = has_hash_tag(&text);
        // A prefix has 256 bytes at most.
        let name = u32::try_from(prefix.len()).unwrap_or(0);
        Ok(Key { text: text.into(), name, tagged })
    }

    /// The same key, if a cluster can have it.
    ///
    /// Refused: a key whose braces form no hash tag. Its siblings would live in another slot.
    pub(crate) fn for_cluster(self) -> Result<Key> {
        if !self.tagged && self.text.contains(['{', '}']) {
            let expected = "for a cluster a key without braces, or with a hash tag: { and a later }, something between";
            return Err(Error::config("name", format_args!("<key {:?}>", self.text), expected));
        }
        Ok(self)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// What the user locks.
    pub(crate) fn name(&self) -> &str {
        &self.text[self.name as usize..]
    }

    /// Its text, for those who keep it.
    pub(crate) fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// The key for `role`; the lock's own for [`Role::Lock`].
    pub(crate) fn of(&self, role: Role) -> Sibling<'_> {
        Sibling { key: self, suffix: role.suffix(), token: "" }
    }

    /// The tombstone of a token.
    pub(crate) fn gone<'a>(&'a self, token: &'a str) -> Sibling<'a> {
        Sibling { key: self, suffix: "gone:", token }
    }
}

/// One of a lock's keys, written where it is needed without a text of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sibling<'a> {
    key: &'a Key,
    /// Empty for the lock's own key.
    suffix: &'static str,
    token: &'a str,
}

impl Sibling<'_> {
    /// What it is made of.
    pub(super) fn parts(&self) -> [&str; 6] {
        let (before, after) = if self.key.tagged { ("", "") } else { ("{", "}") };
        if self.suffix.is_empty() {
            ["", &self.key.text, "", "", "", ""]
        } else {
            [before, &self.key.text, after, MARK, self.suffix, self.token]
        }
    }
}

impl fmt::Display for Sibling<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts().iter().try_for_each(|part| f.write_str(part))
    }
}

impl redis::ToRedisArgs for Sibling<'_> {
    fn write_redis_args<W: ?Sized + redis::RedisWrite>(&self, out: &mut W) {
        out.write_arg_fmt(self);
    }
}

impl redis::ToSingleRedisArg for Sibling<'_> {}

/// Whether a cluster would hash only a part of the key: the first `{` has a later `}` and something between.
fn has_hash_tag(key: &str) -> bool {
    let Some((_, rest)) = key.split_once('{') else { return false };
    rest.find('}').is_some_and(|end| end > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_follows_the_prefix() {
        for (prefix, name) in [("lock:", "order:17"), ("", "a"), ("é:", "ü")] {
            let key = Key::new(prefix, name).unwrap();
            assert_eq!((key.name(), key.as_str()), (name, format!("{prefix}{name}").as_str()));
        }
    }

    fn fence(name: &str) -> String {
        Key::new("lock:", name).unwrap().of(Role::Fence).to_string()
    }

    #[test]
    fn siblings_live_in_the_slot_of_their_lock() {
        assert_eq!(fence("orders"), "{lock:orders}:redlatch:fence");
        assert_eq!(fence("{user7}:orders"), "lock:{user7}:orders:redlatch:fence");
        assert_eq!(fence("{}x"), "{lock:{}x}:redlatch:fence");
    }

    #[test]
    fn names_that_look_alike_share_no_key() {
        let names = ["a", "{a}", "{a}:fence", "a:fence", "a}", "{a", "{{a}}", "{}", "a:redlatch"];
        let keys: Vec<Key> = names.iter().map(|name| Key::new("lock:", name).unwrap()).collect();
        let all = keys.iter().flat_map(|key| Role::ALL.map(|role| key.of(role).to_string()));
        let distinct: std::collections::BTreeSet<String> = all.collect();
        assert_eq!(distinct.len(), names.len() * Role::ALL.len());
    }

    #[test]
    fn names_that_could_touch_another_locks_keys_are_refused() {
        for (prefix, name) in [("lock:", "a:redlatch:fence"), ("x:redlatch", ":y"), ("", "{a}"), ("{", "a}")] {
            assert!(matches!(Key::new(prefix, name), Err(Error::Config { option: "name", .. })), "{prefix}{name}");
        }
    }

    #[test]
    fn a_cluster_refuses_keys_whose_siblings_would_live_in_another_slot() {
        let fits = |name: &str| Key::new("lock:", name).unwrap().for_cluster().is_ok();
        assert!(fits("a") && fits("{a}b") && fits("a{b}") && fits("{{a}}"));
        assert!(!fits("{}a") && !fits("a}") && !fits("{a") && !fits("}a{"));
    }

    #[test]
    fn length_counts_bytes() {
        assert!(Key::new("", "").is_err());
        assert!(Key::new("", &"x".repeat(1024)).is_ok());
        assert!(Key::new("", &"x".repeat(1025)).is_err());
        assert!(Key::new("", &"é".repeat(513)).is_err());
    }
}
