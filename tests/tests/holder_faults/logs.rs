//! What must never show in a log.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::thread;

use redlatch::{Client, LockOptions, ManualClock, Released};
use redlatch_tests::{Proxy, Server, assert_eventually};

use crate::support::{Losses, SECOND, millis, with_server};

/// Everything logged by this process, at every level, by every test.
#[derive(Clone, Default)]
struct Capture(Arc<Mutex<Vec<u8>>>);

impl Write for Capture {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Capture {
    fn install() -> Capture {
        let capture = Capture::default();
        let writer = capture.clone();
        let logs = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false);
        logs.with_writer(move || writer.clone()).init();
        capture
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

/// Everything that was shown to a user, and what may not be in it.
#[derive(Default)]
struct Shown {
    texts: Vec<String>,
    secrets: Vec<String>,
}

impl Shown {
    fn debug(&mut self, value: &dyn std::fmt::Debug) {
        self.texts.push(format!("{value:?}"));
        self.texts.push(format!("{value:#?}"));
    }

    /// An error, with all that it says of its causes.
    fn error(&mut self, error: &redlatch::Error) {
        self.debug(error);
        let mut next: Option<&dyn std::error::Error> = Some(error);
        while let Some(error) = next {
            self.texts.push(error.to_string());
            next = error.source();
        }
    }

    /// The part of a token that proves ownership.
    fn token(&mut self, token: &redlatch::Token) {
        let id = token.as_str().split('@').next().unwrap().to_owned();
        assert_eq!(id.len(), 36, "a uuid");
        self.debug(token);
        self.secrets.push(id);
    }
}

#[test]
fn neither_logs_nor_debug_output_nor_errors_show_a_token_or_a_password() {
    const PASSWORD: &str = "hunter2-is-secret";
    let capture = Capture::install();
    with_server(|unprotected| {
        let server = Server::builder(unprotected.kind()).password(PASSWORD).start();
        let proxy = Proxy::in_front_of(&server);
        let mut shown = Shown { secrets: vec![PASSWORD.to_owned()], ..Shown::default() };
        let builder = Client::builder(&proxy.url()).io_timeout(millis(200)).connect_timeout(millis(200)).label("logs");
        shown.debug(&builder);
        let client = builder.build().unwrap();
        let losses = Losses::default();
        let ttl = millis(1_500);
        let lock = client.lock_with("shown", losses.options(ttl)).unwrap();
        let guard = lock.acquire().unwrap();
        shown.debug(&(&client, &lock, &guard, losses.options(ttl), client.stats(), ManualClock::new()));
        shown.token(guard.token());
        let lease = client.lease("lease", LockOptions::new().ttl(ttl)).unwrap();
        shown.debug(&lease);
        shown.token(lease.token());
        let info = client.inspect("shown").unwrap().unwrap();
        shown.debug(&info);
        shown.token(info.token());

        // Handed over, adopted, given up by a token that is no more, and taken away by force.
        let token = lease.into_token().unwrap();
        let adopted = client.adopt("lease", token.as_str(), LockOptions::new().ttl(ttl)).unwrap().unwrap();
        shown.token(adopted.token());
        assert!(client.adopt("lease", token.as_str(), LockOptions::new().ttl(ttl)).unwrap().is_none());
        assert!(client.force_release("lease").unwrap());
        assert_eventually("the adopted lease is lost", SECOND, || !adopted.is_held());
        shown.error(&adopted.release().unwrap_err());

        // Every failure that a log line tells of: late, unanswered and refused requests, a loss, a thread's end.
        let leak = client.lock_with("leak", LockOptions::new().ttl(ttl)).unwrap();
        let leaked = thread::spawn(move || {
            let guard = leak.acquire().unwrap();
            let token = guard.token().clone();
            guard.forget();
            token
        });
        shown.token(&leaked.join().unwrap());
        let unconfirmed = client.lease("unconfirmed", LockOptions::new().ttl(ttl)).unwrap();
        shown.token(unconfirmed.token());
        proxy.swallow_replies();
        assert_eq!(unconfirmed.release().unwrap(), Released::Unconfirmed);
        shown.error(&guard.renew().unwrap_err());
        shown.error(&client.lock("unanswered").unwrap().try_acquire_for(millis(300)).unwrap_err());
        shown.error(&client.inspect("shown").unwrap_err());
        losses.wait_for("shown", 3 * SECOND);
        shown.debug(&losses.all());
        shown.error(&guard.release().unwrap_err());
        proxy.pass();
        proxy.refuse();
        proxy.reset_all();
        shown.error(&lock.try_acquire().unwrap_err());
        proxy.listen();
        server.set("{lock:foreign}:redlatch:queue", "text");
        shown.error(&client.lock("foreign").unwrap().try_acquire_for(millis(300)).unwrap_err());
        assert_eventually("the background is done", 3 * SECOND, || client.stats().background_now == 0);
        shown.debug(&client.stats());

        // URLs that are refused, and servers that refuse them.
        let port = server.port();
        for url in [
            format!("redis://:wrong-{PASSWORD}@127.0.0.1:{port}/"),
            format!("redis://someone:{PASSWORD}@127.0.0.1:{port}/"),
            format!("redis://:{PASSWORD}@127.0.0.1:1/"),
            format!("redis://:{PASSWORD}@no-such-host.invalid:{port}/"),
        ] {
            let other = Client::builder(&url).io_timeout(millis(200)).connect_timeout(millis(200)).build().unwrap();
            shown.debug(&other);
            shown.error(&other.lock("a").unwrap().try_acquire_for(millis(300)).unwrap_err());
        }
        for url in [
            format!("redis://:{PASSWORD}@127.0.0.1:port/"),
            format!("redis://:{PASSWORD}@127.0.0.1:99999/"),
            format!("redis://user:{PASSWORD}@/db"),
            format!("redis://:{PASSWORD}/{PASSWORD}@127.0.0.1/0"),
            format!("redis://:{PASSWORD}?{PASSWORD}#@127.0.0.1:port/0"),
            format!("redis://:{PASSWORD}@{PASSWORD}@127.0.0.1:port/0"),
            format!("http://:{PASSWORD}@127.0.0.1/"),
            format!("//:{PASSWORD}@127.0.0.1/"),
            format!("user:{PASSWORD}@127.0.0.1"),
            format!(":{PASSWORD}@127.0.0.1"),
            format!("redis://:{PASSWORD}@[::1/"),
            format!("unix:///nowhere?pass={PASSWORD}&db=x"),
            format!("redis://127.0.0.1/?password={PASSWORD}"),
        ] {
            shown.debug(&Client::builder(&url));
            match Client::open(&url) {
                Ok(client) => shown.debug(&client),
                Err(error) => shown.error(&error),
            }
        }
        client.close();
        shown.error(&lock.acquire().unwrap_err());

        shown.texts.extend(capture.text().lines().map(str::to_owned));
        let logged = |text: &str| shown.texts.iter().any(|shown| shown.contains(text));
        for expected in
            ["lease lost while held", "a holder ended", "release not confirmed", "renewal without an answer"]
        {
            assert!(logged(expected), "no log line {expected:?}: the scenario has to reach it");
        }
        for secret in &shown.secrets {
            let leaks: Vec<_> = shown.texts.iter().filter(|text| text.contains(secret)).collect();
            assert!(leaks.is_empty(), "{secret} shows in {leaks:#?}");
        }
    });
}
