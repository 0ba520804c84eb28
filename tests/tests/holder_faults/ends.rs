//! Threads that end while they hold a lock.

use redlatch_tests::assert_eventually;

use crate::support::{SECOND, Worker, with_server};

#[test]
fn a_thread_that_ends_holding_a_lock_leaves_the_key_to_others_and_a_warning() {
    with_server(|server| {
        let mut worker = Worker::start(&server.url(), "label=ends");
        let leak = |worker: &mut Worker, name: &str, commands: &[&str]| {
            let thread = format!("@{name}");
            for command in commands {
                let (command, answer) = match *command {
                    "acquire" => (format!("{thread} acquire {name} ttl_ms=2000"), "acquired"),
                    other => (format!("{thread} {other}"), "logged"),
                };
                worker.ask(&command, answer);
            }
            assert!(server.exists(&format!("lock:{name}")));
            assert_eq!(worker.ask(&format!("{thread} end"), "ended").text("panicked"), "false");
            let gone = || !server.exists(&format!("lock:{name}"));
            assert_eventually("the key is gone within the ttl", 2 * SECOND, gone);
            let warned = || worker.log().iter().any(|line| line.contains("WARN") && line.contains(name));
            assert_eventually("a warning names the lock", SECOND, warned);
        };
        leak(&mut worker, "plain", &["acquire"]);
        leak(&mut worker, "nested", &["acquire", "acquire"]);
        // A log's own thread-local state begins before or after that of redlatch, and so ends after or before it.
        leak(&mut worker, "logged-before", &["log before", "acquire"]);
        leak(&mut worker, "logged-after", &["acquire", "log after"]);
        let mut confirmed = || worker.ask("stats", "stats").count("background_released") == 4;
        assert_eventually("the background has confirmed each", SECOND, &mut confirmed);
        let stats = worker.ask("stats", "stats");
        assert_eq!((stats.count("abandoned"), stats.count("held_now"), stats.count("lost_total")), (4, 0, 0));
        assert_eq!(stats.count("thread_panicked"), 0, "{stats:?}");
        // The process is in order: another thread has the same locks.
        for name in ["plain", "nested", "logged-before", "logged-after"] {
            worker.ask(&format!("@heir try {name}"), "acquired");
            worker.ask(&format!("@heir release {name}"), "released");
        }
    });
}
