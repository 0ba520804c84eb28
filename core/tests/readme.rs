//! The option tables of the README say what the constants and setters say.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use redlatch::options::{self, CountOption, DurationOption};

const CLIENT_TIMES: [DurationOption; 7] = [
    options::CONNECT_TIMEOUT,
    options::IO_TIMEOUT,
    options::POOL_TIMEOUT,
    options::UNAVAILABLE_AFTER,
    options::FENCE_RETENTION,
    options::TURN,
    options::REPLICA_TIMEOUT,
];
const CLIENT_COUNTS: [CountOption; 3] = [options::POOL_SIZE, options::RENEWAL_THREADS, options::MIN_REPLICAS];

/// Default and bounds of each option, by its name.
type Table = BTreeMap<String, (String, String)>;

fn file(path: &str) -> String {
    fs::read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))).expect(path)
}

/// The rows `` | `name` | default | bounds | meaning | `` of the first table after `introduction`.
fn table(introduction: &str) -> Table {
    let text = file("../README.md");
    let (_, rest) = text.split_once(introduction).expect(introduction);
    let rows = rest.lines().skip_while(|line| !line.starts_with("| `")).take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, default, bounds, meaning]: [&str; 4] = cells.try_into().expect("four cells");
        assert!(!meaning.is_empty(), "{row}");
        (name.trim_matches('`').to_owned(), (default.to_owned(), bounds.to_owned()))
    })
    .collect()
}

/// A span in the largest unit that is usual for it.
fn span(value: Duration) -> String {
    let seconds = value.as_secs();
    match seconds {
        _ if value.subsec_millis() > 0 => format!("{} ms", value.as_millis()),
        _ if seconds >= 48 * 3600 && seconds.is_multiple_of(24 * 3600) => format!("{} days", seconds / (24 * 3600)),
        _ if seconds >= 3600 && seconds.is_multiple_of(3600) => format!("{} h", seconds / 3600),
        _ => format!("{seconds} s"),
    }
}

fn time_row(option: &DurationOption) -> (String, (String, String)) {
    let default = option.default.map_or_else(|| "none".to_owned(), span);
    (option.name.to_owned(), (default, format!("{} … {}", span(option.min), span(option.max))))
}

fn row(name: &str, default: &str, bounds: &str) -> (String, (String, String)) {
    (name.to_owned(), (default.to_owned(), bounds.to_owned()))
}

/// The setters of a type that takes and returns itself.
fn setters(path: &str) -> Vec<String> {
    let text = file(path);
    let names = text.lines().filter_map(|line| line.trim_start().strip_prefix("pub fn ")?.split_once("(mut self, "));
    names.map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn the_client_options_of_the_readme_are_those_of_the_builder() {
    let mut expected: Table = CLIENT_TIMES.iter().map(time_row).collect();
    for CountOption { name, default, min, max } in CLIENT_COUNTS {
        expected.extend([row(name, &default.to_string(), &format!("{min} … {max}"))]);
    }
    let prefix = format!("0 … {} bytes", options::MAX_PREFIX_BYTES);
    let label = format!("1 … {} of `A-Z a-z 0-9 . _ - /`", options::MAX_LABEL_BYTES);
    expected.extend([
        row("key_prefix", &format!("`{}`", options::KEY_PREFIX), &prefix),
        row("label", "none", &label),
        row("tls_ca", "none", "PEM file, `rediss…` only"),
        row("tls_cert", "none", "PEM file, `rediss…` only"),
        row("tls_key", "none", "PEM file, `rediss…` only"),
        row("manual_clock", "none", "`memory://` only"),
        row("holder_function", "threads", "–"),
    ]);
    assert_eq!(table("Of a client,"), expected);
    let mut setters = setters("src/client/builder.rs");
    setters.sort();
    assert_eq!(setters, expected.into_keys().collect::<Vec<_>>());
}

#[test]
fn the_lock_options_of_the_readme_are_those_of_lock_options() {
    let max_hold = format!("`ttl` … {}", span(options::MAX_HOLD.max));
    assert_eq!((options::MAX_HOLD.default, options::MAX_HOLD.min), (None, options::TTL.min));
    let expected = Table::from([
        time_row(&options::TTL),
        row("auto_renew", "`true`", "–"),
        row(options::MAX_HOLD.name, "none", &max_hold),
        row("on_lost", "none", "–"),
    ]);
    assert_eq!(table("Of a lock,"), expected);
    let mut setters = setters("src/options.rs");
    setters.sort();
    assert_eq!(setters, expected.into_keys().collect::<Vec<_>>());
}

#[test]
fn the_length_of_a_name_in_the_readme_is_the_constant() {
    let text = file("../README.md");
    assert!(text.contains(&format!("A name has 1 … {} bytes of UTF-8", options::MAX_NAME_BYTES)));
}
