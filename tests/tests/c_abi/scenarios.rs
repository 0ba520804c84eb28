//! What every program may rely on, on every server.

use std::sync::OnceLock;
use std::time::Duration;

use redlatch::{Client, LostReason, Severity};
use redlatch_tests::c::{Build, Program, Recipe, finish_within};
use redlatch_tests::{any_server, each_server};

use crate::SCENARIOS;

/// C11 against the shared library.
fn shared() -> &'static Program {
    static PROGRAM: OnceLock<Program> = OnceLock::new();
    PROGRAM.get_or_init(|| Program::new(&SCENARIOS))
}

/// C99 with the static library.
fn linked_statically() -> Program {
    Program::new(&Recipe { standard: "c99", linked_statically: true, ..SCENARIOS })
}

const BEHAVIOUR: &str = "lock,threads,names,order,operator,check,lease,callbacks,destroy,cancel,log,losses";

#[test]
fn wrong_calls_are_refused_and_write_nothing() {
    shared().run(&["arguments", "memory://c-arguments"]);
}

#[test]
fn options_have_the_defaults_and_bounds_of_the_core_and_a_size() {
    shared().run(&["options"]);
}

#[test]
fn every_function_does_what_the_header_says() {
    each_server(|server| {
        shared().run(&[BEHAVIOUR, &server.url()]);
    });
}

#[test]
fn clients_that_came_and_went_left_threads_or_descriptors_behind() {
    let Some(kind) = any_server() else { return };
    let server = redlatch_tests::Server::start(kind);
    shared().run(&["reopen", &server.url()]);
}

#[test]
fn a_program_with_the_static_library_does_the_same() {
    let program = linked_statically();
    program.run(&["arguments,options", "memory://"]);
    program.run(&[BEHAVIOUR, "memory://c-static"]);
    if let Some(kind) = any_server() {
        let server = redlatch_tests::Server::start(kind);
        program.run(&[BEHAVIOUR, &server.url()]);
        program.run(&["fork,counter", &server.url()]);
    }
}

#[test]
fn a_hundred_threads_count_without_a_lost_update() {
    each_server(|server| {
        shared().run(&["counter", &server.url()]);
    });
}

#[test]
fn a_forked_child_holds_nothing_of_its_parents_and_works_by_itself() {
    each_server(|server| {
        shared().run(&["fork", &server.url()]);
    });
}

#[test]
fn a_fork_of_a_busy_process_left_a_child_that_hangs_or_took_its_leases() {
    let Some(kind) = any_server() else { return };
    let server = redlatch_tests::Server::start(kind);
    let args = ["forks", &server.url(), "1000"];
    finish_within(shared().start(&args), &args, Duration::from_secs(180));
}

#[test]
fn the_statistics_are_json_with_every_counter_of_the_core() {
    let printed = shared().run(&["stats", "memory://c-stats"]);
    let found: serde_json::Value = serde_json::from_str(&printed[0]).expect("it is JSON");
    let stats = Client::open("memory://").unwrap().stats();
    for (name, _) in stats.counters().into_iter().chain(stats.gauges()) {
        assert!(found[name].is_u64(), "{name}: {found}");
    }
    for reason in LostReason::ALL {
        assert!(found["lost"][reason.as_str()].is_u64(), "{reason}: {found}");
    }
    for timing in ["wait_micros", "hold_micros", "hold_percent_of_ttl", "renewal_delay_micros"] {
        for part in ["count", "mean", "p50", "p99", "p999", "max"] {
            assert!(found[timing][part].is_number(), "{timing}.{part}: {found}");
        }
    }
    // The lock is held, and another thread has asked for it twice and waited once.
    assert_eq!((found["acquired"].as_u64(), found["held_now"].as_u64()), (Some(1), Some(1)));
    assert_eq!((found["busy"].as_u64(), found["timed_out"].as_u64()), (Some(2), Some(1)));
    assert_eq!(found["longest_hold_now"]["name"], "st\"at\\s\n");
    assert!(found["longest_hold_now"]["held_ms"].is_u64());
    assert_eq!(found["hottest"][0]["name"], "st\"at\\s\n");
    assert!(found["hottest"][0]["waits"].as_u64() >= Some(1));
}

#[test]
fn an_inspection_is_json() {
    let printed = shared().run(&["operator", "memory://c-operator"]);
    let found: serde_json::Value = serde_json::from_str(&printed[0]).expect("it is JSON");
    assert_eq!(found["name"], "operator");
    assert!(found["token"].as_str().unwrap().ends_with(":billing"));
    assert!(found["token"].as_str().unwrap().ends_with(&format!("@{}", found["owner"].as_str().unwrap())));
    assert!((25_000..=30_000).contains(&found["ttl_left_ms"].as_u64().unwrap()), "{found}");
    assert!(found["fence"].is_u64() && found["waiters"] == 0, "{found}");
}

#[test]
fn what_the_core_finds_on_a_server_is_told_in_its_order() {
    let found_by_core = |url: &str| -> Vec<String> {
        let findings = Client::open(url).unwrap().check_server().unwrap();
        let number = |severity| 3 - Severity::ALL.iter().position(|other| *other == severity).unwrap();
        let lines = findings.iter().map(|it| format!("{} {} {}", number(it.severity()), it.kind(), it.server()));
        without_trip(lines.collect())
    };
    // How long a request takes differs from one to the next.
    fn without_trip(mut lines: Vec<String>) -> Vec<String> {
        lines.retain(|line| !line.contains(" round_trip "));
        lines
    }
    assert_eq!(shared().run(&["check", "memory://"]), found_by_core("memory://"));
    each_server(|server| {
        for policy in ["noeviction", "allkeys-lru"] {
            server.query::<()>(&["CONFIG", "SET", "maxmemory", "200mb"]);
            server.query::<()>(&["CONFIG", "SET", "maxmemory-policy", policy]);
            let told = without_trip(shared().run(&["check", &server.url()]));
            assert_eq!(told, found_by_core(&server.url()));
            assert_eq!(told[0].starts_with("3 eviction "), policy == "allkeys-lru", "{told:?}");
        }
    });
}

#[test]
fn a_panic_ends_one_call_and_nothing_else() {
    let recipe = Recipe { build: Build::Panicking, ..Recipe::c11(&["panic", "support"]) };
    Program::new(&recipe).run(&["memory://"]);
}
