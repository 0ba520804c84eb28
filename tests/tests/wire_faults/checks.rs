//! What `check_server` says of servers that answer what no installed one does.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redlatch::{Client, Error, Finding, FindingKind, Severity};

use crate::fake::{Answer, FakeServer};
use crate::support::{NOISE, ms};

/// What a server that is fit for locks says of itself.
const FIT: &str = "redis_mode:standalone\r\nredis_version:7.0.15\r\nconnected_clients:1\r\nmaxclients:10000\r\n\
                   maxmemory:0\r\nmaxmemory_policy:noeviction\r\nloading:0\r\naof_enabled:1\r\nrole:master\r\n\
                   cluster_enabled:0\r\nlatest_fork_usec:0\r\n";

fn bulk(text: &str) -> Answer {
    Answer::Send(format!("${}\r\n{text}\r\n", text.len()).into_bytes())
}

fn time(since_1970: Duration) -> String {
    let (seconds, micros) = (since_1970.as_secs().to_string(), since_1970.subsec_micros().to_string());
    format!("*2\r\n${}\r\n{seconds}\r\n${}\r\n{micros}\r\n", seconds.len(), micros.len())
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// What a fit server answers, with this `INFO`.
fn fit(info: &str, request: &[String]) -> Answer {
    match request[0].as_str() {
        "INFO" => bulk(info),
        "CONFIG" => Answer::text("*0"),
        "CLUSTER" => Answer::text("-ERR This instance has cluster support disabled"),
        "EVALSHA" => Answer::text("-NOSCRIPT No matching script. Please use EVAL."),
        "EVAL" => Answer::text("-ERR value is not an integer or out of range"),
        "TIME" => Answer::Send(time(now()).into_bytes()),
        "SUBSCRIBE" => Answer::text("*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1"),
        "PUBSUB" => Answer::text("*2\r\n$1\r\nx\r\n:0"),
        "EXISTS" | "PUBLISH" => Answer::text(":0"),
        _ => Answer::ok(),
    }
}

fn check(server: &FakeServer) -> Result<Vec<Finding>, Error> {
    Client::builder(&server.url()).build().unwrap().check_server()
}

/// What is found on a server with this `INFO`; the round trip left out.
fn found(info: &str) -> Vec<(FindingKind, Severity)> {
    let info = info.to_owned();
    let server = FakeServer::start(move |request| fit(&info, request));
    let found = check(&server).unwrap().into_iter().map(|finding| (finding.kind(), finding.severity()));
    found.filter(|(kind, _)| *kind != FindingKind::RoundTrip).collect()
}

#[test]
fn what_a_server_says_of_itself_is_judged() {
    use FindingKind::{ActiveReplica, Eviction, ForkPause, Loading, ReplicaLag, Unacknowledged, Version};
    use Severity::{Info, Problem, Warning};
    assert_eq!(found(FIT), []);
    let cases = [
        ("role:master", "role:active-replica\r\nmaster_host:h\r\nmaster_port:1", ActiveReplica, Problem),
        ("redis_version:7.0.15", "redis_version:4.0.14", Version, Problem),
        ("redis_version:7.0.15", "redis_version:6.0.20", Version, Warning),
        ("loading:0", "loading:1\r\nloading_eta_seconds:7", Loading, Problem),
        ("latest_fork_usec:0", "latest_fork_usec:900000", ForkPause, Warning),
        ("maxmemory_policy:noeviction", "maxmemory_policy:allkeys-lfu", Eviction, Info),
    ];
    for (field, other, kind, severity) in cases {
        assert!(FIT.contains(field));
        assert_eq!(found(&FIT.replace(field, other)), [(kind, severity)], "{other}");
    }
    let under_load = format!("{FIT}master_repl_offset:9000000\r\nslave0:ip=h,port=1,state=online,offset=9,lag=1\r\n");
    assert_eq!(found(&under_load), [(Unacknowledged, Info)]);
    let lagging = format!("{FIT}master_repl_offset:9\r\nslave0:ip=h,port=1,state=online,offset=9,lag=60\r\n");
    assert_eq!(found(&lagging), [(ReplicaLag, Warning), (Unacknowledged, Info)]);
}

#[test]
fn a_servers_clock_that_is_wrong_is_told_with_its_side() {
    let minute = Duration::from_secs(60);
    for (ahead, side) in [(true, "ahead of"), (false, "behind")] {
        let server = FakeServer::start(move |request| match request[0].as_str() {
            "TIME" => Answer::Send(time(if ahead { now() + minute } else { now() - minute }).into_bytes()),
            _ => fit(FIT, request),
        });
        let found = check(&server).unwrap();
        let clock = found.iter().find(|finding| finding.kind() == FindingKind::Clock).expect("it is told");
        assert_eq!(clock.severity(), Severity::Warning);
        assert!(clock.message().contains(side) && clock.message().contains("60.0 s"), "{clock}");
    }
}

#[test]
fn a_server_far_away_supports_no_short_ttl() {
    let server = FakeServer::start(|request| match request[0].as_str() {
        // 30 bytes and more, one by one.
        "TIME" => Answer::Drip(time(now()).into_bytes(), ms(1)),
        _ => fit(FIT, request),
    });
    let patient = Client::builder(&server.url()).io_timeout(ms(10_000)).build().unwrap();
    let found = patient.check_server().unwrap();
    let trip = found.iter().find(|finding| finding.kind() == FindingKind::RoundTrip).expect("it is told");
    let (_, ttl) = trip.message().split_once("supports a ttl from ").expect("it tells the ttl");
    let mut words = ttl.split(' ');
    let ttl: f64 = words.next().unwrap().parse().unwrap();
    // On a machine that is busy it is seconds.
    let millis = if words.next() == Some("s") { ttl * 1e3 } else { ttl };
    assert!(millis >= 12.0 * 30.0, "{trip}");
}

#[test]
fn a_part_that_is_denied_is_told_and_the_rest_is_judged() {
    let denied = |command: &'static str| {
        let server = FakeServer::start(move |request| {
            if request[0] == command { Answer::text("-NOPERM this user has no permissions") } else { fit(FIT, request) }
        });
        check(&server).unwrap()
    };
    for command in ["INFO", "CONFIG"] {
        let found = denied(command);
        let not_checked = found.iter().find(|finding| finding.kind() == FindingKind::NotChecked).expect("it is told");
        assert!(not_checked.severity() == Severity::Info && not_checked.message().contains(command), "{not_checked}");
        let others = found.iter().filter(|finding| finding.kind() != FindingKind::RoundTrip);
        assert!(others.clone().all(|finding| finding.severity() == Severity::Info), "{found:#?}");
    }
}

#[test]
fn a_failed_snapshot_was_called_a_refusal_where_the_settings_are_denied() {
    let info = format!("{FIT}rdb_last_bgsave_status:err\r\n");
    let server = FakeServer::start(move |request| match request[0].as_str() {
        "CONFIG" => Answer::text("-NOPERM this user has no permissions"),
        _ => fit(&info, request),
    });
    let found = check(&server).unwrap();
    let refusing = found.iter().find(|finding| finding.kind() == FindingKind::Refusing).expect("it is told");
    assert!(refusing.severity() == Severity::Warning && refusing.message().contains("may refuse"), "{refusing}");
}

#[test]
fn healthy_nodes_were_called_unreachable_when_the_time_was_over() {
    const NODES: u16 = 10;
    let slots = Arc::new(OnceLock::<String>::new());
    let start = |_| {
        let slots = slots.clone();
        FakeServer::start(move |request| match request[0].as_str() {
            "CLUSTER" if request[1] == "SLOTS" => Answer::text(slots.get().expect("it is set")),
            "CLUSTER" => bulk("cluster_state:ok\r\n"),
            // Four late answers of each node: for all of them that is more than the 6 s of the check.
            "TIME" => {
                std::thread::sleep(ms(180));
                Answer::Send(time(now()).into_bytes())
            }
            _ => fit(FIT, request),
        })
    };
    let nodes: Vec<FakeServer> = (0..NODES).map(start).collect();
    let rows = nodes.iter().zip(0..).map(|(node, n): (_, u16)| {
        let (first, last) = (n * 1_600, if n == NODES - 1 { 16_383 } else { n * 1_600 + 1_599 });
        format!("*3\r\n:{first}\r\n:{last}\r\n*2\r\n$9\r\n127.0.0.1\r\n:{}\r\n", node.port())
    });
    let rows: String = rows.collect();
    slots.set(format!("*{NODES}\r\n{}", rows.trim_end())).unwrap();
    let url = format!("redis+cluster://127.0.0.1:{}", nodes[0].port());
    let client = Client::builder(&url).connect_timeout(ms(500)).io_timeout(ms(700)).build().unwrap();
    let found = client.check_server().unwrap();
    let of = |kind| found.iter().filter(move |finding| finding.kind() == kind);
    assert_eq!(of(FindingKind::Unreachable).count(), 0, "{found:#?}");
    let left = of(FindingKind::NotChecked).filter(|finding| finding.message().starts_with("no time was left"));
    let (left, measured) = (left.count(), of(FindingKind::RoundTrip).count());
    assert!(left > 0 && measured > 0 && left + measured == usize::from(NODES), "{found:#?}");
}

#[test]
fn a_server_that_stops_answering_midway_kept_the_check_for_ever() {
    for silent in ["TIME", "SUBSCRIBE"] {
        let server = FakeServer::start(move |request| {
            // Nothing at all.
            if request[0] == silent { Answer::Send(Vec::new()) } else { fit(FIT, request) }
        });
        let limit = ms(500);
        let client = Client::builder(&server.url()).connect_timeout(limit).io_timeout(limit).build().unwrap();
        let begin = std::time::Instant::now();
        let outcome = client.check_server();
        assert!(matches!(outcome, Err(Error::Unavailable { .. })), "{outcome:?}");
        assert!(begin.elapsed() < limit * 5 + NOISE, "{silent}: {:?}", begin.elapsed());
    }
}
