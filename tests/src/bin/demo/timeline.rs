//! What a person reads: one line for each thing that happened.

use std::env;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::time::Instant;

/// Whether a line is good or bad news; shown as a colour on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Good,
    Bad,
}

/// Standard output with a clock.
#[derive(Debug)]
pub(crate) struct Timeline {
    start: Instant,
    colour: bool,
}

impl Timeline {
    pub(crate) fn start() -> Timeline {
        let colour = io::stdout().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Timeline { start: Instant::now(), colour }
    }

    /// `  1.204 s  worker-2  text`
    pub(crate) fn event(&self, tone: Tone, who: &str, text: impl Display) {
        let seconds = self.start.elapsed().as_secs_f64();
        let text = self.painted(tone, &text.to_string());
        self.text(&format!("{seconds:>7.3} s  {who:<8}  {text}"));
    }

    pub(crate) fn heading(&self, text: &str) {
        self.text("");
        self.bold(text);
    }

    pub(crate) fn bold(&self, text: &str) {
        self.text(&self.wrapped("1", text));
    }

    pub(crate) fn toned(&self, tone: Tone, text: &str) {
        self.text(&self.painted(tone, text));
    }

    pub(crate) fn text(&self, text: &str) {
        // A reader who has gone away is no reason to leave the servers and workers half way.
        let _ = writeln!(io::stdout(), "{text}");
    }

    pub(crate) fn painted(&self, tone: Tone, text: &str) -> String {
        match tone {
            Tone::Plain => text.to_owned(),
            Tone::Good => self.wrapped("32", text),
            Tone::Bad => self.wrapped("31", text),
        }
    }

    fn wrapped(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
