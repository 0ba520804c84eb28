//! What must hold for any input that others choose: URLs and options, a server's answers, names.
//!
//! One function a target, which panics where something does not hold. [`driver`] calls them in `cargo test`, with the
//! inputs that are kept in `tests/fuzz/corpus` and with mutations of these; `tests/fuzz` calls them from libFuzzer, for
//! which this module is built with `--cfg fuzzing`.

#[cfg(test)]
mod driver;
mod keys;
mod limits;
mod replies;
mod urls;
mod waits;

pub use keys::key;
pub use limits::option;
pub use replies::reply;
pub use urls::url;
pub use waits::wait;

/// Stands for a password or for the secret part of a token wherever an input has [`PLACEHOLDER`]. Its form is that of a
/// token's random part.
const SECRET: &str = "5ec3e75e-c3e7-4ec3-85ec-3e75ec3e75ec";

/// A character of an input that becomes [`SECRET`].
const PLACEHOLDER: char = '^';

/// Fails where `text`, which somebody may log, shows the secret.
#[track_caller]
fn assert_hidden(text: &str) {
    assert!(!text.contains(SECRET), "a secret is shown: {text}");
}

/// Fails where `text` would break the line of a log, or fill a page of it.
#[track_caller]
fn assert_presentable(text: &str) {
    assert_hidden(text);
    assert!(!text.chars().any(char::is_control), "control characters in {text:?}");
    assert!(text.chars().count() <= 700, "{} characters: {text}", text.chars().count());
}
