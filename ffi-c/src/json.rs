//! What `redlatch_inspect` and `redlatch_client_stats_json` tell.

use std::fmt::Write as _;

use redlatch_core::{Histogram, LockInfo, LostReason, Stats};

/// Writes one JSON object.
struct Object(String);

impl Object {
    fn new() -> Object {
        Object("{".to_owned())
    }

    /// A field whose value is JSON already.
    fn raw(&mut self, name: &str, value: &str) -> &mut Object {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.0.push_str(&quoted(name));
        self.0.push(':');
        self.0.push_str(value);
        self
    }

    fn number(&mut self, name: &str, value: u64) -> &mut Object {
        self.raw(name, &value.to_string())
    }

    fn text(&mut self, name: &str, value: &str) -> &mut Object {
        self.raw(name, &quoted(value))
    }

    fn end(&mut self) -> String {
        self.0.push('}');
        std::mem::take(&mut self.0)
    }
}

/// `text` as a JSON string. What could end a C string or break a line is escaped.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c < ' ' || c == '\u{7f}' => {
                // Writing to a String cannot fail.
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

fn optional(value: Option<String>) -> String {
    value.unwrap_or_else(|| "null".to_owned())
}

pub(crate) fn lock_info(info: &LockInfo) -> String {
    let left = info.ttl_left().map(|left| left.as_millis().to_string());
    Object::new()
        .text("name", info.name())
        .text("token", info.token().as_str())
        .raw("owner", &optional(info.owner().map(quoted)))
        .raw("ttl_left_ms", &optional(left))
        .raw("fence", &optional(info.fence().map(|fence| fence.to_string())))
        .number("waiters", info.waiters())
        .end()
}

pub(crate) fn stats(stats: &Stats) -> String {
    let mut all = Object::new();
    for (name, value) in stats.counters().into_iter().chain(stats.gauges()) {
        all.number(name, value);
    }
    let mut lost = Object::new();
    for reason in LostReason::ALL {
        lost.number(reason.as_str(), stats.lost(reason));
    }
    let longest = stats.longest_hold_now.as_ref().map(|longest| {
        let held = u64::try_from(longest.held.as_millis()).unwrap_or(u64::MAX);
        Object::new().text("name", &longest.name).number("held_ms", held).end()
    });
    let hottest: Vec<String> = stats
        .hottest
        .iter()
        .map(|hot| Object::new().text("name", &hot.name).number("waits", hot.waits).end())
        .collect();
    all.raw("lost", &lost.end())
        .raw("longest_hold_now", &optional(longest))
        .raw("wait_micros", &summary(&stats.wait_micros))
        .raw("hold_micros", &summary(&stats.hold_micros))
        .raw("hold_percent_of_ttl", &summary(&stats.hold_percent_of_ttl))
        .raw("renewal_delay_micros", &summary(&stats.renewal_delay_micros))
        .raw("hottest", &format!("[{}]", hottest.join(",")))
        .end()
}

fn summary(histogram: &Histogram) -> String {
    Object::new()
        .number("count", histogram.count())
        .raw("mean", &format!("{:.1}", histogram.mean()))
        .number("p50", histogram.quantile(0.5))
        .number("p99", histogram.quantile(0.99))
        .number("p999", histogram.quantile(0.999))
        .number("max", histogram.max())
        .end()
}
