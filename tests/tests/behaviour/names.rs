//! Names of locks, and the keys they become.

use redlatch::{Client, Error, LockOptions, Released};

use crate::store::{Store, on_each_server, on_each_store, ttl};

on_each_store![any_text_is_a_name, names_that_look_alike_are_different_locks, prefixes_may_be_anything_too];
on_each_server![names_with_braces_touch_no_key_but_their_own];

/// Names that are easily cut, escaped, folded or matched as a pattern.
fn odd_names() -> Vec<String> {
    let names = [
        " ",
        "a b",
        "\"",
        "'",
        "\\",
        "a\"b'c",
        "锁",
        "数据库:订单",
        "🔒",
        "👩‍👩‍👧",
        "é",
        "e\u{301}",
        "{",
        "}",
        "{}",
        "{a}",
        "a{b}c",
        "}{",
        "{{a}}",
        "{a}{b}",
        "\n",
        "a\r\nSET x y\r\n",
        "\t",
        "\0",
        "a\0b",
        "*",
        "?",
        "[a-z]",
        "%s%n",
        "$1",
        "a:b",
        "redlatch",
        ":redlatch",
        "A",
        "a",
        "..",
        "/etc",
        "-1",
        "null",
    ];
    let longest = ["x".repeat(1_024), "é".repeat(512), "锁".repeat(341)];
    names.into_iter().map(str::to_owned).chain(longest).collect()
}

fn any_text_is_a_name(store: &Store) {
    let (client, other) = (store.client(), store.client());
    for name in odd_names() {
        let guard = client.lock(&name).unwrap().acquire().unwrap();
        assert_eq!(guard.name(), name);
        assert!(other.lock(&name).unwrap().try_acquire().unwrap().is_none(), "{name:?}");
        assert!(other.lock(&name).unwrap().is_locked().unwrap(), "{name:?}");
        guard.renew().unwrap();
        if store.is_server() {
            let held = store.server().get(&store.key(&name));
            assert_eq!(held.as_deref(), Some(guard.token().as_str()), "{name:?}: the key is prefix and name");
        }
        assert_eq!(guard.release().unwrap(), Released::Released, "{name:?}");
        let token = client.lease(&name, ttl(60_000)).unwrap().into_token().unwrap();
        let adopted = other.adopt(&name, token.as_str(), ttl(60_000)).unwrap().expect("its token");
        assert_eq!(adopted.release().unwrap(), Released::Released, "{name:?}");
        assert!(store.is_free(&name), "{name:?}");
    }
}

fn names_that_look_alike_are_different_locks(store: &Store) {
    let (client, other) = (store.client(), store.client());
    let names = odd_names();
    let guards: Vec<_> = names
        .iter()
        .map(|name| {
            let granted = client.lock(name).unwrap().try_acquire().unwrap();
            granted.unwrap_or_else(|| panic!("{name:?} is another lock's key"))
        })
        .collect();
    let mut fences: Vec<u64> = guards.iter().map(|guard| guard.fence()).collect();
    fences.dedup();
    assert_eq!(fences.len(), names.len());
    for guard in guards {
        let name = guard.name().to_owned();
        assert_eq!(store.look(&name).unwrap().fence(), Some(guard.fence()), "{name:?}: each has a fence of its own");
        drop(guard);
        assert!(store.is_free(&name));
    }
    assert!(names.iter().all(|name| other.lock(name).unwrap().try_acquire().unwrap().is_some()));
}

fn names_with_braces_touch_no_key_but_their_own(store: &Store) {
    let client = store.client();
    let server = store.server();
    // A user's own keys beside a lock named `{c}`, and beside one named `c`.
    let users = [store.key("{c}:fence"), format!("{{{}c}}:fence", store.prefix()), store.key("c:fence")];
    users.iter().for_each(|key| server.set(key, "the user's"));
    let locks = ["{a}", "{a}:fence", "a:fence", "{c}", "c"].map(|name| client.lock(name).unwrap());
    let guards = locks.each_ref().map(|lock| lock.try_acquire().unwrap().expect("none touches another"));
    for guard in &guards {
        guard.renew().unwrap();
        assert_eq!(server.get(&store.key(guard.name())).as_deref(), Some(guard.token().as_str()));
    }
    for guard in guards {
        let key = store.key(guard.name());
        assert_eq!(guard.release().unwrap(), Released::Released);
        assert!(!server.exists(&key));
    }
    for key in &users {
        assert_eq!(server.get(key).as_deref(), Some("the user's"));
        assert_eq!(server.pttl(key), -1);
    }
    // Without a prefix `{c}` and `c` would share their siblings, so one of them is refused.
    let bare = Client::builder(store.url()).key_prefix("").build().unwrap();
    let error = bare.lock_with("{c}", LockOptions::new()).unwrap_err();
    assert!(matches!(error, Error::Config { option: "name", .. }), "{error}");
    let unique = format!("{}{{c}}:x", store.prefix());
    assert_eq!(bare.lock(&unique).unwrap().acquire().unwrap().release().unwrap(), Released::Released);
}

fn prefixes_may_be_anything_too(store: &Store) {
    let unique = store.prefix();
    for prefix in [format!("x{{{unique}}}:"), format!("x{{{unique}"), format!("{unique}锁 \n"), format!("{unique}{{}}")]
    {
        let open = || store.any_prefix().key_prefix(&prefix).build().unwrap();
        let (client, other) = (open(), open());
        for name in ["a", "{a}", "}", "a}b"] {
            let guard = client.lock(name).unwrap().acquire().unwrap();
            assert!(other.lock(name).unwrap().try_acquire().unwrap().is_none(), "{prefix:?} {name:?}");
            if store.is_server() {
                assert!(store.server().exists(&format!("{prefix}{name}")), "{prefix:?} {name:?}");
            }
            assert_eq!(guard.release().unwrap(), Released::Released);
            assert!(!other.lock(name).unwrap().is_locked().unwrap(), "{prefix:?} {name:?}");
        }
    }
}
