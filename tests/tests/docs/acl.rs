//! The access rules of docs/operations.md: enough for everything that a client does, and none too many.

use std::collections::BTreeMap;
use std::thread::{self, Scope};
use std::time::Duration;

use redlatch::{Client, Error, FindingKind, LockOptions, Released};
use redlatch_tests::{
    DOCUMENTED_PASSWORD as PASSWORD, DOCUMENTED_USER as USER, Server, documented_rules, each_server, eventually,
};

const NAME: &str = "order:17";
const SECOND: Duration = Duration::from_secs(1);

/// The rules that serve push, each with the step of [`push`] that goes wrong without it.
const PUSH: [(&str, &str); 5] = [
    ("&redlatch:inbox:*", "no inbox"),
    ("+subscribe", "no inbox"),
    ("+publish", "nobody is woken"),
    ("+ping", "the inbox is lost"),
    ("+pubsub|numsub", "a waiter without subscriber has the turn"),
];

/// The documented rules but one.
fn without(rule: &str) -> Vec<&'static str> {
    documented_rules().into_iter().filter(|other| *other != rule).collect()
}

fn is_push(rule: &str) -> bool {
    PUSH.iter().any(|(known, _)| *known == rule)
}

fn set_user(server: &Server, rules: &[&str]) {
    let command = [&["ACL", "SETUSER", USER, "reset"], rules].concat();
    let _: String = server.query(&command);
}

fn client(url: &str) -> Client {
    Client::builder(url).unavailable_after(SECOND).build().unwrap()
}

/// Has a client of the user do everything that clients do; false when a step did not come out as it should.
fn exercise(server: &Server) -> Result<bool, Error> {
    server.flush();
    let _: String = server.query(&["SCRIPT", "FLUSH"]);
    let client = client(&server.url_as(USER, PASSWORD));
    thread::scope(|scope| {
        let outcome = steps(server, &client, scope);
        // Ends the waiter of an exercise that was cut short.
        client.close();
        outcome
    })
}

fn steps<'scope>(server: &Server, client: &'scope Client, scope: &'scope Scope<'scope, '_>) -> Result<bool, Error> {
    let options = LockOptions::new().ttl(5 * SECOND);
    let lock = client.lock_with(NAME, options.clone())?;
    let guard = lock.acquire()?;
    guard.renew()?;
    // One joins the queue, and leaves it at the end of its time.
    let short = Duration::from_millis(250);
    let timed_out = client.try_lease_for(NAME, options.clone(), short)?.is_none() && client.stats().timed_out == 1;
    let left = client.inspect(NAME)?.is_some_and(|info| info.waiters() == 0);
    // Another stays, and has the turn after the release.
    let waiting = scope.spawn({
        let options = options.clone();
        move || client.try_lease_for(NAME, options, 10 * SECOND)
    });
    let queued = eventually(10 * SECOND, || {
        waiting.is_finished() || matches!(client.inspect(NAME), Ok(Some(info)) if info.waiters() == 1)
    });
    let released = guard.release()? == Released::Released;
    let Some(lease) = waiting.join().expect("no panic")? else { return Ok(false) };
    // A renewal that finds another's token ends with the write that changes nothing.
    server.set("lock:order:17", "another");
    let taken = matches!(lease.renew(), Err(Error::Lost(_)));
    drop(lease);
    let forced = client.force_release(NAME)?;

    let token = client.lease(NAME, options.clone())?.into_token()?;
    let Some(lease) = client.adopt(NAME, token.as_str(), options)? else { return Ok(false) };
    let handed_over = lease.release()? == Released::Released;
    // The overdue turn of a client with an inbox.
    server.set("{lock:order:17}:redlatch:turn", "1 its-token its-inbox");
    let unblocked = lock.acquire()?.release()? == Released::Released;

    let stats = client.stats();
    let clean = stats.release_failed == 0 && stats.background_gave_up == 0;
    Ok(timed_out && left && queued && released && taken && forced && handed_over && unblocked && clean)
}

/// Has a client of the user wait by push, behind a waiter whose client is gone; the first thing that goes wrong.
fn push(server: &Server) -> Result<(), &'static str> {
    server.flush();
    // A turn that a waiter without subscriber is given would last.
    let client = Client::builder(&server.url_as(USER, PASSWORD)).turn(10 * SECOND).build().unwrap();
    thread::scope(|scope| {
        let outcome = push_steps(server, &client, scope);
        client.close();
        outcome
    })
}

fn push_steps<'scope>(
    server: &Server,
    client: &'scope Client,
    scope: &'scope Scope<'scope, '_>,
) -> Result<(), &'static str> {
    let sibling = |role: &str| format!("{{lock:{NAME}}}:redlatch:{role}");
    let denied = || client.stats().push_denied > 0;
    let lease = client.lease(NAME, LockOptions::new()).unwrap();
    let waiting = scope.spawn(|| client.try_lease_for(NAME, LockOptions::new(), 30 * SECOND));
    let has_inbox = || {
        let inboxes: Vec<String> = server.query(&["HVALS", &sibling("waiters")]);
        inboxes.iter().any(|inbox| inbox.starts_with("redlatch:inbox:"))
    };
    if !eventually(5 * SECOND, || has_inbox() || denied()) || denied() {
        return Err("no inbox");
    }
    // A quiet inbox has to prove that it lives.
    let pings = || server.command_counts().get("ping").copied().unwrap_or(0);
    let before = pings();
    let proved = eventually(5 * SECOND, || pings() > before || client.stats().inbox_lost > 0);
    if !proved || client.stats().inbox_lost > 0 {
        return Err("the inbox is lost");
    }
    let _: i64 = server.query(&["ZADD", &sibling("queue"), "1", "dead"]);
    let _: i64 = server.query(&["HSET", &sibling("waiters"), "dead", "redlatch:inbox:of-the-dead"]);
    assert_eq!(lease.release().unwrap(), Released::Released);
    if server.get(&sibling("turn")).is_some_and(|turn| turn.contains(" dead ")) {
        server.del(&sibling("turn"));
        return Err("a waiter without subscriber has the turn");
    }
    if client.stats().publish_denied > 0 {
        return Err("nobody is woken");
    }
    let served = waiting.join().expect("no panic").is_ok_and(|lease| lease.is_some());
    assert!(served && eventually(SECOND, || client.stats().pushes == 1), "{:?}", client.stats());
    Ok(())
}

fn denied_commands(server: &Server) -> Vec<String> {
    let log: Vec<BTreeMap<String, redis::Value>> = server.query(&["ACL", "LOG"]);
    log.into_iter().map(|mut entry| redis::from_redis_value(entry.remove("object").unwrap()).unwrap()).collect()
}

#[test]
fn the_documented_access_rules_are_enough() {
    each_server(|server| {
        set_user(server, &documented_rules());
        assert!(exercise(server).unwrap());
        assert_eq!(push(server), Ok(()));
        // What is denied all the same, and may be.
        let denied = denied_commands(server);
        let harmless = ["client", "client|setinfo", "unsubscribe", "punsubscribe"];
        assert!(denied.iter().all(|command| harmless.contains(&command.as_str())), "{denied:?}");
    });
}

#[test]
fn without_any_one_of_the_documented_access_rules_the_error_names_the_permission() {
    let documented = documented_rules();
    assert!(documented.contains(&"+evalsha") && documented.contains(&"~lock:*"), "{documented:?}");
    each_server(|server| {
        for rule in documented.iter().filter(|rule| rule.starts_with(['+', '~']) && !is_push(rule)) {
            set_user(server, &without(rule));
            let outcome = exercise(server);
            assert!(matches!(outcome, Err(Error::Permission { .. })), "without {rule}: {outcome:?}");
            let text = outcome.unwrap_err().to_string();
            let named = match rule.strip_prefix('+') {
                Some(command) => text.contains(&format!("'{command}'")) || text.contains(&format!("lacks {rule}")),
                // A server does not say which of the keys it is.
                None => text.contains("\"lock:order:17\"") && text.contains("\"{lock:order:17}:redlatch:queue\""),
            };
            assert!(named, "without {rule}: {text}");
        }
    });
}

#[test]
fn without_any_one_of_the_access_rules_for_push_waiters_poll_or_a_dead_one_costs_a_turn() {
    each_server(|server| {
        for (rule, goes_wrong) in PUSH {
            assert!(documented_rules().contains(&rule), "{rule}");
            set_user(server, &without(rule));
            assert_eq!(push(server), Err(goes_wrong), "without {rule}");
        }
    });
}

#[test]
fn without_all_access_rules_for_push_everything_works_by_polling() {
    let rules: Vec<&str> = documented_rules().into_iter().filter(|rule| !is_push(rule)).collect();
    each_server(|server| {
        set_user(server, &rules);
        assert!(exercise(server).unwrap());
    });
}

#[test]
fn replicas_that_must_acknowledge_need_wait() {
    each_server(|server| {
        let client = || Client::builder(&server.url_as(USER, PASSWORD)).min_replicas(1).build().unwrap();
        set_user(server, &documented_rules());
        let denied = client().lock(NAME).unwrap().try_acquire();
        assert!(matches!(&denied, Err(error @ Error::Permission { .. }) if error.to_string().contains("'wait'")));
        set_user(server, &[documented_rules(), vec!["+wait"]].concat());
        let alone = client().lock(NAME).unwrap().try_acquire();
        assert!(matches!(alone, Err(Error::NotReplicated { wanted: 1, acknowledged: 0, .. })), "{alone:?}");
        assert!(!server.exists("lock:order:17"));
    });
}

/// The rules that the check needs besides.
fn for_the_check() -> Vec<&'static str> {
    let (_, rest) = include_str!("../../../docs/operations.md")
        .rsplit_once("ACL SETUSER redlatch")
        .expect("the docs have the rules");
    let (rules, _) = rest.split_once("```").expect("the rules stand in a block of code");
    rules.split_whitespace().map(|word| word.trim_matches('\'')).collect()
}

#[test]
fn the_rules_for_the_check_are_enough_for_all_of_it() {
    each_server(|server| {
        let findings = || {
            let found = client(&server.url_as(USER, PASSWORD)).check_server().unwrap();
            let not_checked = found.iter().find(|it| it.kind() == FindingKind::NotChecked);
            let denied =
                found.iter().any(|it| matches!(it.kind(), FindingKind::AccessDenied | FindingKind::PushDenied));
            (not_checked.map(|it| it.message().to_owned()), denied)
        };
        set_user(server, &documented_rules());
        let (not_checked, denied) = findings();
        let text = not_checked.expect("a part is refused to a user who needs no more");
        assert!(text.contains("INFO") && text.contains("CONFIG GET") && !denied, "{text}");
        set_user(server, &[documented_rules(), for_the_check()].concat());
        assert_eq!(findings(), (None, false));
    });
}

#[test]
fn a_database_other_than_0_needs_select() {
    each_server(|server| {
        let url = format!("{}1", server.url_as(USER, PASSWORD));
        set_user(server, &documented_rules());
        let denied = client(&url).lock(NAME).unwrap().try_acquire();
        assert!(matches!(&denied, Err(error @ Error::Permission { .. }) if error.to_string().contains("'select'")));
        set_user(server, &[documented_rules(), vec!["+select"]].concat());
        assert!(client(&url).lock(NAME).unwrap().try_acquire().unwrap().is_some());
    });
}
