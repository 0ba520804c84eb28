//! The command line.

use crate::plan::Phase;

/// What the caller wants.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) seconds: f64,
    pub(crate) seed: u64,
    pub(crate) keep: bool,
    /// The only part that is played, for all of the time.
    pub(crate) only: Option<Phase>,
}

impl Options {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Option<Options> {
        let mut options = Options { seconds: 120.0, seed: fastrand::u64(..1_000_000_000), keep: false, only: None };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--seconds" => {
                    options.seconds = words.next()?.parse().ok().filter(|it| (5.0..=86_400.0).contains(it))?
                }
                "--minutes" => {
                    let minutes = words.next()?.parse().ok().filter(|it: &f64| (0.1..=1_440.0).contains(it))?;
                    options.seconds = 60.0 * minutes;
                }
                "--seed" => options.seed = words.next()?.parse().ok()?,
                "--only" => {
                    let name = words.next()?;
                    options.only = Some(Phase::ALL.into_iter().find(|phase| phase.name() == name)?);
                }
                "--keep" => options.keep = true,
                _ => return None,
            }
        }
        Some(options)
    }
}
