//! What `check_server` says of servers that answer what no installed one does.

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
    for command in ["INFO", "CONFIG", "TIME"] {
        let found = denied(command);
        let not_checked = found.iter().find(|finding| finding.kind() == FindingKind::NotChecked).expect("it is told");
        assert!(not_checked.severity() == Severity::Info && not_checked.message().contains(command), "{not_checked}");
        let others = found.iter().filter(|finding| finding.kind() != FindingKind::RoundTrip);
        assert!(others.clone().all(|finding| finding.severity() == Severity::Info), "{found:#?}");
    }
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
