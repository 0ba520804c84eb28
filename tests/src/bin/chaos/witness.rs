//! What sentinels do besides what is done to them: a server that a busy machine keeps from answering for long is replaced too,
//! and the one that takes its place may not have what it had.

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use redis::Value;
use redlatch_tests::Server;
use redlatch_tests::history::{Nanos, now};

/// A sentinel is about to promote a replica.
const BEGINS: &str = "+failover-state-send-slaveof-noone";
/// A sentinel names another primary.
const ENDS: &str = "+switch-master";

/// Listens to sentinels until it is dropped.
pub(crate) struct Witness {
    heard: Arc<Mutex<Heard>>,
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Heard {
    begins: Vec<Nanos>,
    ends: Vec<Nanos>,
}

impl Witness {
    /// Writes down in `log` whatever the sentinels tell of the servers.
    pub(crate) fn start(sentinels: &[Server], log: &File) -> Witness {
        let (heard, over) = (Arc::new(Mutex::new(Heard::default())), Arc::new(AtomicBool::new(false)));
        let listen = |sentinel: &Server| {
            let mut connection = sentinel.raw_connection();
            connection.send(&["PSUBSCRIBE", "*"]).expect("the sentinel answers");
            let limit = std::time::Duration::from_millis(200);
            connection.stream().set_read_timeout(Some(limit)).expect("the limit is not zero");
            let (port, log) = (sentinel.port(), log.try_clone().expect("a file has more than one handle"));
            let (heard, over) = (heard.clone(), over.clone());
            thread::spawn(move || {
                while !over.load(Ordering::Acquire) {
                    match connection.read() {
                        Ok(message) => note(&message, port, &log, &heard),
                        Err(error) if error.is_timeout() => {}
                        Err(_) => return,
                    }
                }
            })
        };
        let threads = sentinels.iter().map(listen).collect();
        Witness { heard, over, threads }
    }

    /// The failovers that began outside of this span, each from before the promotion until the last sentinel told of it.
    pub(crate) fn unplanned(&self, planned: &[(Nanos, Nanos)]) -> Vec<(Nanos, Nanos)> {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let is_planned = |at: &Nanos| planned.iter().any(|(from, until)| from <= at && at <= until);
        let begins: Vec<Nanos> = heard.begins.iter().copied().filter(|at| !is_planned(at)).collect();
        let end_of = |(n, begin): (usize, &Nanos)| {
            let next = begins.get(n + 1).copied().unwrap_or(Nanos::MAX);
            let its = heard.ends.iter().copied().filter(|end| begin <= end && *end < next);
            (*begin, its.max().unwrap_or(*begin))
        };
        begins.iter().enumerate().map(end_of).collect()
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

fn note(message: &Value, port: u16, mut log: &File, heard: &Mutex<Heard>) {
    let at = now();
    let Value::Array(fields) = message else { return };
    let [_, _, Value::BulkString(channel), Value::BulkString(text)] = fields.as_slice() else { return };
    let (channel, text) = (String::from_utf8_lossy(channel), String::from_utf8_lossy(text));
    // By one system call, whole.
    let _ = log.write_all(format!("{at} sentinel {port}: {channel} {text}\n").as_bytes());
    let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
    match &*channel {
        BEGINS => heard.begins.push(at),
        ENDS => heard.ends.push(at),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failover_that_nobody_asked_for_is_told_from_a_planned_one() {
        let heard = Heard { begins: vec![10, 50, 90], ends: vec![12, 14, 55, 61, 95] };
        let (heard, over) = (Arc::new(Mutex::new(heard)), Arc::new(AtomicBool::new(false)));
        let witness = Witness { heard, over, threads: Vec::new() };
        assert_eq!(witness.unplanned(&[(5, 13)]), [(50, 61), (90, 95)]);
        assert_eq!(witness.unplanned(&[(5, 13), (49, 51), (80, 100)]), []);
    }
}
