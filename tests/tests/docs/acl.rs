//! The access rules of docs/operations.md: enough for everything that a client does, and none too many.

use std::thread::{self, Scope};
use std::time::Duration;

use redlatch::{Client, Error, LockOptions, Released};
use redlatch_tests::{Server, each_server, eventually};

const DOCS: &str = include_str!("../../../docs/operations.md");
const USER: &str = "redlatch";
const PASSWORD: &str = "PASSWORD";
const NAME: &str = "order:17";
const SECOND: Duration = Duration::from_secs(1);

/// The rules that follow `ACL SETUSER redlatch` in the docs.
fn documented() -> Vec<&'static str> {
    let (_, rest) = DOCS.split_once("ACL SETUSER redlatch").expect("the docs have the rules");
    let (rules, _) = rest.split_once("```").expect("the rules stand in a block of code");
    rules.split_whitespace().filter(|word| *word != "\\").map(|word| word.trim_matches('\'')).collect()
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
    let clean = stats.release_failed == 0 && stats.publish_denied == 0 && stats.background_gave_up == 0;
    Ok(timed_out && left && queued && released && taken && forced && handed_over && unblocked && clean)
}

#[test]
fn the_documented_access_rules_are_enough() {
    each_server(|server| {
        set_user(server, &documented());
        assert!(exercise(server).unwrap());
    });
}

#[test]
fn without_any_one_of_the_documented_access_rules_the_error_is_permission() {
    let documented = documented();
    assert!(documented.contains(&"+evalsha") && documented.contains(&"~lock:*"), "{documented:?}");
    each_server(|server| {
        for rule in documented.iter().filter(|rule| rule.starts_with(['+', '~'])) {
            let rest: Vec<&str> = documented.iter().copied().filter(|other| other != rule).collect();
            set_user(server, &rest);
            let outcome = exercise(server);
            assert!(matches!(outcome, Err(Error::Permission { .. })), "without {rule}: {outcome:?}");
        }
    });
}

#[test]
fn a_database_other_than_0_needs_select() {
    each_server(|server| {
        let url = format!("{}1", server.url_as(USER, PASSWORD));
        set_user(server, &documented());
        let denied = client(&url).lock(NAME).unwrap().try_acquire();
        assert!(matches!(denied, Err(Error::Permission { .. })), "{denied:?}");
        set_user(server, &[documented(), vec!["+select"]].concat());
        assert!(client(&url).lock(NAME).unwrap().try_acquire().unwrap().is_some());
    });
}
