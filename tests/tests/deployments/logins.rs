//! User names and passwords of any characters, over every way to a server, and in no text.

use redlatch::{Client, Error, LockOptions, Released};
use redlatch_tests::{Server, any_server, each_server, each_server_with, percent_encoded};

use crate::nodes::cluster_of;
use crate::support::{SECOND, key, limited, ttl};

/// Names and passwords; a server takes no names with spaces.
fn logins() -> Vec<(String, String)> {
    let plain = [
        ("app", "two  words "),
        ("at@colon:slash/percent%", "@:/%#?&+@:/%#?&+"),
        ("hash#question?and&plus+", "[](){}<>=;,!$'*~^|`\\"),
        ("single'double\"", "'single' \"double\""),
        ("back\\slash", "\\n\\\\x00\\"),
        ("Zoë-日本語", "pässwörd 密码 パスワード"),
        ("rocket🚀", "🔒🔑👩‍👩‍👧"),
        ("%41lready%20encoded", "%41lready%20encoded%zz%"),
        ("line", "end\r\nand\ttab\u{1}"),
        ("-", "-*+,;|&&"),
    ];
    let long = ("u".repeat(1_000), "€".repeat(4_000));
    plain.map(|(user, password)| (user.to_owned(), password.to_owned())).into_iter().chain([long]).collect()
}

fn make_user(server: &Server, user: &str, password: &str) {
    server.query::<()>(&["ACL", "SETUSER", user, "reset", "on", &format!(">{password}"), "~*", "&*", "+@all"]);
}

/// Logs in with the URL and uses a lock, also by a waiter's connection and after all connections were ended; a wrong
/// password is refused, and shows in no text.
#[track_caller]
fn assert_logs_in(server: &Server, url: impl Fn(&str, &str) -> String, user: &str, password: &str) {
    let client = limited(&url(user, password), SECOND).build().unwrap();
    let lease = client.lease("a", ttl(30_000)).unwrap_or_else(|error| panic!("{user:?} {password:?}: {error}"));
    assert_eq!(server.get(&key("a")).as_deref(), Some(lease.token().as_str()));
    let own: String = server.query(&["CLIENT", "LIST"]);
    let named = format!("user={user} ");
    // Before 7.2 a server escapes nothing here, and a user is no part of the list in 6.2's replicas.
    assert!(own.contains(&named), "{named:?} is not in {own}");
    assert_eq!(lease.release().unwrap(), Released::Released);

    let wrong = format!("{password}wrong");
    let refused = limited(&url(user, &wrong), SECOND).build().unwrap();
    let error = refused.lock("a").unwrap().try_acquire().unwrap_err();
    assert!(matches!(error, Error::Authentication { .. }), "{error:?}");
    for text in [error.to_string(), format!("{error:?}"), format!("{client:?} {refused:?}"), client.server().to_owned()]
    {
        assert!(!text.contains(password) && !text.contains(&percent_encoded(password)), "{text}");
        assert!(!text.contains(user) || user == "-" || user == "app" || user == "line", "{text}");
    }
}

#[test]
fn logins_of_any_characters_work_over_tcp_and_a_unix_socket() {
    each_server_with(
        |it| it.unix_socket(true),
        |server| {
            for (user, password) in logins() {
                make_user(server, &user, &password);
                assert_logs_in(server, |user, password| server.url_as(user, password), &user, &password);
                let socket = |user: &str, password: &str| {
                    format!(
                        "{}?db=0&user={}&pass={}",
                        server.unix_url(),
                        percent_encoded(user),
                        percent_encoded(password)
                    )
                };
                assert_logs_in(server, socket, &user, &password);
            }
        },
    );
}

#[test]
fn logins_of_any_characters_work_behind_sentinels_which_have_their_own() {
    let Some(kind) = any_server() else { return };
    let server = Server::start(kind);
    let sentinel = Server::builder(kind)
        .sentinel()
        .config("sentinel", &format!("monitor s 127.0.0.1 {} 1", server.port()))
        .config("sentinel", "auth-user s harness")
        .config("sentinel", "auth-pass s harness-admin")
        .config("user", "default off")
        .start();
    for (user, password) in logins() {
        make_user(&server, &user, &password);
        let theirs = format!("theirs{password}");
        make_user(&sentinel, &user, &theirs);
        let url = |user: &str, password: &str| {
            let [user, password, theirs] = [user, password, &theirs].map(percent_encoded);
            format!(
                "redis+sentinel://{user}:{password}@{}/s?sentinel_user={user}&sentinel_password={theirs}",
                sentinel.addr()
            )
        };
        assert_logs_in(&server, url, &user, &password);
    }
}

#[test]
fn logins_of_any_characters_work_on_a_cluster() {
    let Some(kind) = any_server() else { return };
    let nodes = cluster_of(kind, "127.0.0.1", &[0], |it| it);
    let server = &nodes[0];
    for (user, password) in logins() {
        make_user(server, &user, &password);
        let url = |user: &str, password: &str| server.url_as(user, password).replace("redis:", "redis+cluster:");
        assert_logs_in(server, url, &user, &password);
    }
}

/// Only these end a login: all others may stand as they are.
#[test]
fn a_printable_character_in_a_password_was_read_as_another() {
    let Some(kind) = any_server() else { return };
    let server = Server::start(kind);
    for character in (' '..='~').chain(['é', '锁', '\u{1f512}']) {
        let password = format!("s3{character}cret");
        make_user(&server, "app", &password);
        let url = format!("redis://app:{password}@{}/0", server.addr());
        let outcome = limited(&url, SECOND).build().and_then(|client| client.lease("a", LockOptions::new()));
        match character {
            '/' | '?' | '#' => {
                let error = outcome.unwrap_err();
                assert!(matches!(error, Error::Config { option: "url", .. }), "{character:?}: {error:?}");
                let text = format!("{error} {error:?}");
                assert!(!text.contains("s3") && !text.contains("cret"), "{text}");
            }
            // A percent sign that no two hexadecimal digits follow is itself.
            _ => assert_eq!(outcome.unwrap().release().unwrap(), Released::Released, "{character:?}"),
        }
    }
}

#[test]
fn a_user_without_a_password_was_logged_in_as_the_default_one() {
    each_server(|server| {
        server.query::<()>(&["ACL", "SETUSER", "app", "on", "nopass", "~*", "&*", "+@all"]);
        server.query::<()>(&["ACL", "SETUSER", "default", "off"]);
        for login in ["app@", "app:@"] {
            let client = Client::open(&server.url().replace("://", &format!("://{login}"))).unwrap();
            assert_eq!(client.lease("a", LockOptions::new()).unwrap().release().unwrap(), Released::Released);
        }
    });
}

#[test]
fn a_password_without_a_user_is_that_of_the_default_one() {
    each_server_with(
        |it| it.password("p w@:/?#&+%é"),
        |server| {
            assert!(server.url().starts_with("redis://:"));
            let client = Client::open(&server.url()).unwrap();
            assert_eq!(client.lease("a", LockOptions::new()).unwrap().release().unwrap(), Released::Released);
        },
    );
}
