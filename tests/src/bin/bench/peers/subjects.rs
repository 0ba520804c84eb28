//! What is compared: `tests/peers/README.md` describes each.

use redlatch_tests::bench::Bar;

/// In what a lock is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Python,
    Rust,
}

/// A lock with its settings.
#[derive(Debug)]
pub(crate) struct Subject {
    /// What players call it, and what its values begin with.
    pub(crate) name: &'static str,
    /// What a reader is shown.
    pub(crate) title: &'static str,
    pub(crate) language: Language,
    /// How long at most a waiter sleeps between two looks at the lock, in milliseconds; 0 for one that is woken.
    pub(crate) pause: f64,
    /// Uncontended pairs in a block, of which the median counts; 0 where the settings change nothing about one.
    pub(crate) pairs: usize,
}

/// Pairs in a block of those that take about as long as a round trip.
const MANY: usize = 20;

pub(crate) const SUBJECTS: [Subject; 11] = [
    Subject { name: "redlatch_rust", title: "redlatch, Rust", language: Language::Rust, pause: 0.0, pairs: MANY },
    Subject { name: "redlatch_python", title: "redlatch, Python", language: Language::Python, pause: 0.0, pairs: MANY },
    Subject { name: "redis_py", title: "redis-py Lock", language: Language::Python, pause: 100.0, pairs: MANY },
    Subject {
        name: "redis_py_eager",
        title: "redis-py Lock, sleep=0.001",
        language: Language::Python,
        pause: 1.0,
        pairs: 0,
    },
    Subject {
        name: "python_redis_lock",
        title: "python-redis-lock",
        language: Language::Python,
        pause: 0.0,
        pairs: MANY,
    },
    Subject {
        name: "python_redis_lock_renewing",
        title: "python-redis-lock, auto_renewal",
        language: Language::Python,
        pause: 0.0,
        pairs: MANY,
    },
    Subject { name: "pottery", title: "pottery Redlock", language: Language::Python, pause: 200.0, pairs: MANY },
    Subject { name: "portalocker", title: "portalocker RedisLock", language: Language::Python, pause: 375.0, pairs: 1 },
    Subject {
        name: "portalocker_eager",
        title: "portalocker RedisLock, pauses of 2 ms",
        language: Language::Python,
        pause: 7.5,
        pairs: 1,
    },
    Subject { name: "rslock", title: "rslock", language: Language::Rust, pause: 200.0, pairs: MANY },
    Subject {
        name: "rslock_eager",
        title: "rslock, pauses below 2 ms",
        language: Language::Rust,
        pause: 1.0,
        pairs: 0,
    },
];

impl Subject {
    /// Whether it is redlatch.
    pub(crate) fn is_ours(&self) -> bool {
        self.name == OURS_IN_RUST || self.name == OURS_IN_PYTHON
    }

    /// redlatch in the same language.
    pub(crate) fn ours(&self) -> &'static str {
        match self.language {
            Language::Python => OURS_IN_PYTHON,
            Language::Rust => OURS_IN_RUST,
        }
    }

    /// Whether a waiter may sleep for long after the release.
    pub(crate) fn is_slow(&self) -> bool {
        self.pause > 50.0
    }

    pub(crate) fn bar(&self, value: f64) -> Bar {
        Bar { name: self.title.to_owned(), value, ours: self.is_ours() }
    }
}

pub(crate) const OURS_IN_RUST: &str = "redlatch_rust";
pub(crate) const OURS_IN_PYTHON: &str = "redlatch_python";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peer_is_compared_with_one_that_takes_part() {
        for subject in &SUBJECTS {
            let ours = SUBJECTS.iter().find(|it| it.name == subject.ours()).expect("it takes part");
            assert!(ours.is_ours() && ours.language == subject.language, "{subject:?}");
            assert_eq!(SUBJECTS.iter().filter(|it| it.name == subject.name).count(), 1, "{subject:?}");
        }
    }
}
