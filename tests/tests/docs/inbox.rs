//! docs/protocol.md on turns and inboxes: who is next, who is woken, and who is passed over.

use redis::Value;
use redlatch_tests::{Server, each_server, each_server_with};

use crate::client::{LOCK, Other, released, sibling};

const INBOX: &str = "redlatch:inbox:5d0a4a5e-5a3c-4b8e-9d1f-0c3a6b7f8e21";

fn turn(server: &Server) -> Option<String> {
    server.get(&sibling("turn"))
}

/// Whose turn it is, and on which inbox it was told so.
fn turn_of(server: &Server) -> Option<(String, String)> {
    let turn = turn(server)?;
    let [due, token, inbox] = turn.split(' ').collect::<Vec<_>>()[..] else { panic!("{turn}") };
    let now: Vec<String> = server.query(&["TIME"]);
    let now = format!("{}{:0>6}", now[0], now[1]).parse::<i64>().unwrap();
    let left = due.parse::<i64>().unwrap() - now;
    assert!((0..=1_000_000).contains(&left), "due in {left} µs");
    Some((token.to_owned(), inbox.to_owned()))
}

fn is_turn_of(server: &Server, token: &str, inbox: &str) -> bool {
    turn_of(server) == Some((token.to_owned(), inbox.to_owned()))
}

fn queue(server: &Server) -> Vec<String> {
    server.query(&["ZRANGE", &sibling("queue"), "0", "-1"])
}

/// A holder `h` and waiters with these inboxes behind it, in this order.
fn held(server: &Server, waiters: &[(&str, &str)]) -> Other {
    server.flush();
    let mut other = Other::new(server);
    assert_eq!(other.tries("h").status, 1);
    for (rank, (token, inbox)) in waiters.iter().enumerate() {
        let joined = other.joins_with(token, inbox);
        assert_eq!((joined.status, joined.rank), (0, rank as i64));
    }
    other
}

#[test]
fn a_release_wakes_the_first_waiter_by_its_token_on_its_inbox() {
    each_server(|server| {
        let mut listener = Other::new(server);
        listener.subscribes(INBOX);
        let mut other = held(server, &[("a", INBOX), ("b", INBOX)]);
        let inboxes: Vec<String> = server.query(&["HMGET", &sibling("waiters"), "a", "b"]);
        assert_eq!(inboxes, [INBOX, INBOX]);
        assert_eq!(other.releases("h", "0"), released(1, 1, 0));
        assert_eq!(listener.hears(), ["message", INBOX, "a"]);
        assert!(is_turn_of(server, "a", INBOX));
        assert_eq!(queue(server), ["b"], "it has left the queue, and waits for nobody");

        // A quiet inbox proves that its connection lives.
        assert_eq!(listener.command(&["PING"]).map(|reply| reply.as_sequence().map(<[_]>::len)), Ok(Some(2)));
        assert_eq!(other.joins_with("b", INBOX).status, 0, "the turn is another's");
        assert_eq!(other.joins_with("a", INBOX).status, 1);
        assert!(turn(server).is_none());
        assert_eq!(other.releases("a", "0"), released(1, 1, 0));
        assert_eq!(listener.hears(), ["message", INBOX, "b"]);
        assert_eq!(other.joins_with("b", INBOX).status, 1);
        assert_eq!(other.releases("b", "0"), released(1, 0, 0), "nobody waits");
        assert!(turn(server).is_none());
    });
}

#[test]
fn each_poll_states_the_inbox_and_keeps_the_place() {
    each_server(|server| {
        let mut other = held(server, &[("a", "-"), ("b", "-")]);
        let inbox = || server.query::<String>(&["HGET", &sibling("waiters"), "a"]);
        let first = other.joins("a", "");
        assert_eq!(inbox(), "-");
        let again = other.joins_with("a", INBOX);
        assert_eq!((again.rank, &again.score, inbox()), (0, &first.score, INBOX.to_owned()));
        other.joins("a", "");
        assert_eq!(inbox(), "-");
        for role in ["queue", "waiters"] {
            let _: i64 = server.query(&["PEXPIRE", &sibling(role), "1000"]);
            other.joins("b", "");
            assert!(server.pttl(&sibling(role)) > 59_000, "a poll sets the life of {role} anew");
        }
        other.releases("h", "0");
        assert!(server.pttl(&sibling("turn")) > 59_000);
    });
}

#[test]
fn a_waiter_without_an_inbox_has_its_turn_and_no_message() {
    each_server(|server| {
        let mut other = held(server, &[("a", "-"), ("b", "-")]);
        assert_eq!(other.releases("h", "0"), released(1, 0, 0));
        assert!(is_turn_of(server, "a", "-"));
        assert!(!server.command_counts().contains_key("publish"));
    });
}

#[test]
fn a_waiter_whose_inbox_has_no_subscriber_is_passed_over_on_one_server_but_not_on_a_cluster() {
    each_server(|server| {
        // A pattern that matches everything is no subscriber of an inbox.
        let mut everything = Other::new(server);
        everything.command(&["PSUBSCRIBE", "*"]).unwrap();
        let mut other = held(server, &[("a", "dead"), ("b", "dead"), ("c", "-")]);
        assert_eq!(other.releases("h", "0"), released(1, 0, 0));
        assert!(is_turn_of(server, "c", "-"));
        assert_eq!((queue(server).len(), server.exists(&sibling("waiters"))), (0, false));

        let mut other = held(server, &[("a", "dead"), ("b", "-")]);
        assert_eq!(other.asks_to_release("h", "0", false), Ok(released(1, 1, 0)), "where a node counts only its own");
        assert!(is_turn_of(server, "a", "dead"));
    });
}

#[test]
fn one_release_passes_over_256_waiters_at_most() {
    each_server(|server| {
        let names: Vec<String> = (0..256).map(|number| format!("dead-{number:03}")).collect();
        let dead = |count: usize| -> Vec<(&str, &str)> {
            names[..count].iter().map(|token| (token.as_str(), "dead")).chain([("live", "-")]).collect()
        };
        let mut other = held(server, &dead(255));
        assert_eq!(other.releases("h", "0"), released(1, 0, 0));
        assert!(is_turn_of(server, "live", "-"));

        let mut other = held(server, &dead(256));
        assert_eq!(other.releases("h", "0"), released(1, 0, 0));
        assert_eq!((turn(server), queue(server)), (None, vec!["live".to_owned()]), "the next one asks by itself");
        assert_eq!(other.joins("live", "").status, 1);
    });
}

#[test]
fn a_denied_publish_leaves_the_turn_and_an_unknown_count_is_a_live_inbox() {
    let users = |builder: redlatch_tests::ServerBuilder| {
        builder.user("mute on >pw ~* &* +@all -publish").user("blind on >pw ~* &* +@all -pubsub")
    };
    each_server_with(users, |server| {
        let mut listener = Other::new(server);
        listener.subscribes(INBOX);
        held(server, &[("a", INBOX)]);
        assert_eq!(Other::logged_in(server, "mute", "pw").releases("h", "0"), released(1, 0, 1));
        assert!(is_turn_of(server, "a", INBOX));

        held(server, &[("a", "dead"), ("b", "-")]);
        assert_eq!(Other::logged_in(server, "blind", "pw").releases("h", "0"), released(1, 1, 0));
        assert!(is_turn_of(server, "a", "dead"));
    });
}

#[test]
fn who_gives_up_leaves_the_queue_and_passes_its_turn_on() {
    each_server(|server| {
        let mut other = held(server, &[("a", "-"), ("b", "-"), ("c", "-")]);
        assert_eq!(other.releases("b", "0"), released(0, 0, 0));
        assert_eq!(queue(server), ["a", "c"]);
        other.releases("h", "0");
        assert!(is_turn_of(server, "a", "-"));
        assert_eq!(other.releases("a", "0"), released(0, 0, 0));
        assert!(is_turn_of(server, "c", "-"));
        // Again: the turn is not its own any more.
        assert_eq!(other.releases("a", "0"), released(0, 0, 0));
        assert!(is_turn_of(server, "c", "-"));

        // A plain client was quicker: the turn goes, and waits for that client's release.
        let mut other = held(server, &[("a", "-"), ("b", "-")]);
        other.releases("h", "0");
        server.set(LOCK, "plain");
        assert_eq!(other.releases("a", "0"), released(0, 0, 0));
        assert_eq!((turn(server), queue(server)), (None, vec!["b".to_owned()]));
    });
}

#[test]
fn a_turn_is_cleared_when_its_waiter_finds_a_plain_client_with_the_lock() {
    each_server(|server| {
        let mut other = held(server, &[("a", "-"), ("b", "-")]);
        let place = other.joins("a", "");
        other.releases("h", "0");
        let _: Value = server.query(&["SET", LOCK, "plain", "PX", "5000"]);
        let again = other.joins("a", &place.score);
        assert_eq!((again.status, again.rank, &again.score), (0, 0, &place.score), "in its old place");
        assert!(again.left > 4_000 && turn(server).is_none(), "{again:?}");
        assert_eq!(queue(server), ["a", "b"]);
    });
}

#[test]
fn an_overdue_turn_is_its_waiters_still_and_drops_the_inbox_for_anyone_else() {
    each_server(|server| {
        let mut other = held(server, &[("a", "dead"), ("b", "dead"), ("c", "-"), ("d", "live")]);
        assert!(server.del(LOCK));
        server.set(&sibling("turn"), "1 a dead");
        assert_eq!(other.joins_with("a", "dead").status, 1, "its own");
        assert_eq!((turn(server), queue(server).len()), (None, 3));

        let mut other = held(server, &[("a", "-"), ("b", "-")]);
        assert!(server.del(LOCK));
        server.set(&sibling("turn"), "1 a -");
        assert_eq!(other.tries("newcomer").status, 1);
        assert_eq!(queue(server), ["b"], "those without an inbox have nothing in common");
    });
}
