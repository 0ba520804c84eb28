//! A process that forks while it holds locks.

use std::thread;

use redlatch_tests::{Monitor, assert_eventually};

use crate::support::{SECOND, Worker, is_renewal, renewals, with_server};

#[test]
fn a_child_neither_holds_nor_releases_what_its_parent_holds() {
    for hook in [true, false] {
        with_server(|server| {
            let monitor = Monitor::start(server);
            let mut worker = Worker::start(&server.url(), "label=forks");
            let hold = |worker: &mut Worker, name: &str, options: &str| {
                let line = worker.ask(&format!("acquire {name} ttl_ms=1500 {options}"), "acquired");
                line.text("token").to_owned()
            };
            let child = |worker: &mut Worker, commands: &str| {
                let exited = worker.ask(&format!("fork after_fork={hook}; {commands}"), "child_exited");
                assert_eq!(exited.count("status"), 0, "{commands}");
            };
            let still_held = |name: &str, token: &str| {
                assert_eq!(server.get(&format!("lock:{name}")).as_deref(), Some(token), "{name}, hook {hook}");
            };

            // The child's first contact with redlatch is its release, drop, exit or end of everything.
            let parents: Vec<(&str, String)> = ["release", "drop", "end", "lease", "gone"]
                .into_iter()
                .map(|name| (name, hold(&mut worker, name, if name == "lease" { "as=lease" } else { "" })))
                .collect();
            child(&mut worker, "release release");
            child(&mut worker, "drop drop");
            child(&mut worker, "release lease");
            child(&mut worker, "");
            child(&mut worker, "exit");
            child(&mut worker, "close");
            // Whatever a child left to a thread of its own is done by now.
            thread::sleep(SECOND / 5);
            parents.iter().for_each(|(name, token)| still_held(name, token));
            let errors = worker.all("error");
            assert!(errors.len() == 2 && errors.iter().all(|line| line.text("lost") == "forked"), "{errors:?}");

            child(
                &mut worker,
                "check gone; renew gone; try other ttl_ms=1500; check other; release other; try gone; stats",
            );
            let mine =
                |word: &str| worker.all(word).into_iter().rev().find(|line| line.has("child")).expect("an answer");
            assert!(mine("busy").text("name") == "gone", "the parent has it");
            let checks: Vec<_> = worker.all("checked").into_iter().filter(|line| line.has("child")).collect();
            let checks: Vec<_> = checks.iter().map(|line| (line.text("held"), line.text("lost"))).collect();
            assert_eq!(checks, [("false", "forked"), ("true", "-")]);
            let own = mine("acquired");
            let pid = own.text("child").to_owned();
            assert!(own.text("token").contains(&format!(":{pid}:forks")), "{own:?}");
            assert!(parents.iter().all(|(_, token)| token != own.text("token")));
            assert_eq!(mine("released").text("outcome"), "released");
            assert_eq!((mine("stats").count("acquired"), mine("stats").count("lost_total")), (1, 0));
            assert!(!worker.all("lost").iter().any(|line| line.has("child")), "the callbacks are the parent's");

            // The parent's leases are renewed as before, by the parent alone, and released as its own.
            let before = worker.ask("stats", "stats").count("renewed");
            thread::sleep(2 * SECOND);
            assert!(worker.ask("stats", "stats").count("renewed") >= before + 2 * parents.len() as u64);
            for (name, token) in &parents {
                still_held(name, token);
                assert_eq!(worker.ask(&format!("check {name}"), "checked").text("held"), "true");
                assert_eq!(worker.ask(&format!("release {name}"), "released").text("outcome"), "released");
                assert!(!server.exists(&format!("lock:{name}")));
            }
            assert!(worker.all("lost").is_empty());
            let abandoned = worker.log().into_iter().find(|line| line.contains("thread ended"));
            assert_eq!(abandoned, None, "the end of the child's thread abandons nothing of the parent's");
            let sources = || {
                let lines = monitor.client_commands().into_iter().filter(is_renewal);
                lines.map(|line| line.client).collect::<std::collections::BTreeSet<_>>()
            };
            assert!(renewals(&monitor) > 0);
            assert!(sources().len() <= 2, "only the parent's two renewing threads renew: {:?}", sources());
            assert_eventually("nothing is left", 2 * SECOND, || {
                server.keys("lock:*").iter().all(|key| key.contains(":redlatch:"))
            });
        });
    }
}
