//! What workers leave behind at the locks.

use std::time::Duration;

use redlatch::{Client, LockOptions};
use redlatch_tests::{Server, eventually};

use crate::crew::THREADS;
use crate::{KEYS, SLACK, TTL, WAIT};

/// What is left of workers that ended in good order; and whatever is left once those that were killed were passed over, who
/// keep their places and may have a turn.
pub(crate) fn leftovers(server: &Server, killed: &[u32]) -> Vec<String> {
    let mut left: Vec<String> = (0..KEYS).flat_map(|key| alive(server, key, killed)).collect();
    let client = Client::open(&server.url()).expect("the URL is valid");
    let remaining = |within: Duration| {
        let mut left = Vec::new();
        eventually(within, || {
            left = server.lock_leftovers();
            left.is_empty()
        });
        left
    };
    // Each round passes over one of them at each lock.
    for round in 0..=killed.len() * THREADS {
        if round > 0 && remaining(Duration::ZERO).is_empty() {
            break;
        }
        for key in 0..KEYS {
            let name = format!("chaos:{key}");
            let lock = client.lock_with(&name, LockOptions::new().ttl(TTL)).expect("the name is valid");
            let siblings = ["turn", "queue"].map(|role| format!("{{lock:{name}}}:redlatch:{role}"));
            if (round == 0 || siblings.iter().any(|key| server.exists(key)))
                && let Ok(Some(guard)) = lock.try_acquire_for(WAIT)
            {
                let _ = guard.release();
            }
        }
    }
    client.close();
    left.extend(remaining(SLACK));
    left
}

/// Whose place in the queue or turn is left, of those that were not killed. A token ends with `@host:pid`.
fn alive(server: &Server, key: usize, killed: &[u32]) -> Vec<String> {
    let sibling = |role: &str| format!("{{lock:chaos:{key}}}:redlatch:{role}");
    let mut tokens: Vec<String> = server.query(&["ZRANGE", &sibling("queue"), "0", "-1"]);
    let turn = server.get(&sibling("turn"));
    tokens.extend(turn.iter().filter_map(|turn| turn.split(' ').nth(1)).map(str::to_owned));
    let pid = |token: &str| token.rsplit_once(':').and_then(|(_, pid)| pid.parse::<u32>().ok());
    tokens.retain(|token| pid(token).is_none_or(|pid| !killed.contains(&pid)));
    tokens.into_iter().map(|token| format!("chaos:{key}: {token}")).collect()
}
