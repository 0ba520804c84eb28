//! What a test may ask of the present process, and how it waits for a condition.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::launch::THREAD_PREFIX;

/// Pause between two looks at a condition.
const STEP: Duration = Duration::from_millis(5);

/// Polls `condition` every 5 ms until it holds; false when it still does not after `timeout`.
///
/// The condition is looked at once more after the time is over, so a stalled test machine gives no
/// false alarm.
pub fn eventually(timeout: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + timeout;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= end {
            return condition();
        }
        thread::sleep(STEP);
    }
}

/// As [`eventually`], but panics with `what` when the condition never held.
#[track_caller]
pub fn assert_eventually(what: &str, timeout: Duration, condition: impl FnMut() -> bool) {
    assert!(eventually(timeout, condition), "not within {timeout:?}: {what}");
}

/// Names of all threads of this process except the harness's own, sorted.
///
/// The kernel keeps 15 bytes of a name. Threads of libtest carry the names of the tests, so a test
/// that counts threads selects by name or runs alone in its process.
pub fn thread_names() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").expect("this system has /proc/self/task");
    let mut names: Vec<String> = tasks
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .map(|name| name.trim_end().to_owned())
        .filter(|name| !name.starts_with(THREAD_PREFIX))
        .collect();
    names.sort();
    names
}

/// Number of threads that [`thread_names`] lists.
pub fn thread_count() -> usize {
    thread_names().len()
}

/// Resident memory of this process in bytes.
pub fn rss_bytes() -> u64 {
    rss_bytes_of(std::process::id())
}

/// Resident memory of a process in bytes; panics when it does not run.
pub fn rss_bytes_of(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.expect("its status has VmRSS in kB") * 1024
}

/// CPU time that the present threads of a process have used, to the nanosecond; zero where the kernel does not tell.
/// Panics when it does not run.
pub fn cpu_time_of(pid: u32) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the process runs");
    let used = tasks.filter_map(|task| {
        let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(used.sum::<u64>())
}
