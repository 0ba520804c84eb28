//! Each fault of the proxy, shown by plain connections.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use redis::Value;
use redlatch_tests::{Monitor, Proxy, RawConnection, ReplyFault, Server, any_server, assert_eventually, each_server};

const SECOND: Duration = Duration::from_secs(1);
/// Long enough for a reply that comes, short enough to wait for one that does not.
const QUIET: Duration = Duration::from_millis(60);

fn connect(proxy: &Proxy) -> RawConnection {
    RawConnection::connect(proxy.addr(), 5 * SECOND).unwrap()
}

/// Asserts that no reply comes now.
fn assert_silent(connection: &mut RawConnection) {
    connection.stream().set_read_timeout(Some(QUIET)).unwrap();
    assert!(connection.read().unwrap_err().is_timeout());
    connection.stream().set_read_timeout(Some(5 * SECOND)).unwrap();
}

/// Runs against one server: what the proxy does is the same for each kind.
fn with_server(body: impl FnOnce(&Server)) {
    if let Some(kind) = any_server() {
        body(&Server::start(kind));
    }
}

#[test]
fn traffic_passes_unchanged() {
    each_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let mut client = redis::Client::open(proxy.url()).unwrap().get_connection().unwrap();
        let value: Vec<u8> = (0..2_000_000_u32).map(|n| (n % 251) as u8).collect();
        redis::cmd("SET").arg("k").arg(&value).exec(&mut client).unwrap();
        assert!(redis::cmd("GET").arg("k").query::<Vec<u8>>(&mut client).unwrap() == value);
        let mut pipe = redis::pipe();
        for _ in 0..10_000 {
            pipe.cmd("INCR").arg("n");
        }
        let replies: Vec<i64> = pipe.query(&mut client).unwrap();
        assert!(replies.into_iter().eq(1..=10_000));
        let mut pubsub = client.as_pubsub();
        pubsub.set_read_timeout(Some(5 * SECOND)).unwrap();
        pubsub.subscribe(&["a", "b"]).unwrap();
        assert_eq!(server.query::<i64>(&["PUBLISH", "b", "hello"]), 1);
        assert_eq!(pubsub.get_message().unwrap().get_payload::<String>().unwrap(), "hello");
        assert_eq!(proxy.connections()[0].unanswered, 0);
        drop(pubsub);
        let traffic = proxy.traffic();
        assert_eq!((traffic.accepted, traffic.open), (1, 1));
        assert!(traffic.to_server > 2_000_000 && traffic.to_client > 2_000_000);
        drop(client);
        assert_eventually("the connection is gone", SECOND, || proxy.connections().is_empty());
        assert_eq!(proxy.traffic().open, 0);
    });
}

#[test]
fn a_black_hole_loses_both_ways_and_hides_the_end() {
    with_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let mut old = connect(&proxy);
        old.command::<()>(&["PING"]).unwrap();
        proxy.drop_all();
        let mut new = connect(&proxy);
        for connection in [&mut old, &mut new] {
            connection.send(&["SET", "k", "v"]).unwrap();
            assert_silent(connection);
        }
        assert!(!server.exists("k"));
        server.kill();
        assert_silent(&mut old);
        server.restart();
        proxy.pass();
        assert!(old.command::<()>(&["PING"]).unwrap_err().is_connection_dropped());
        new.command::<()>(&["PING"]).unwrap();
        proxy.drop_all();
        proxy.reset_all();
        let error = new.stream().read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn delays_keep_order_and_overlap() {
    with_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let mut connection = connect(&proxy);
        let delay = Duration::from_millis(80);
        proxy.delay_replies(delay);
        let begin = Instant::now();
        for n in 0..5 {
            connection.send(&["ECHO", &n.to_string()]).unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(server.command_counts().get("echo") >= Some(&4), "requests are not delayed");
        for n in 0..5 {
            assert_eq!(connection.read().unwrap(), Value::BulkString(n.to_string().into_bytes()));
        }
        let elapsed = begin.elapsed();
        assert!((delay..3 * delay).contains(&elapsed), "{elapsed:?}");
        proxy.pass();
        proxy.delay_requests(delay);
        let begin = Instant::now();
        connection.send(&["SET", "k", "v"]).unwrap();
        std::thread::sleep(delay / 4);
        assert!(!server.exists("k"));
        connection.read().unwrap();
        assert!((delay..3 * delay).contains(&begin.elapsed()));
        proxy.delay_requests(100 * SECOND);
        connection.send(&["PING"]).unwrap();
        assert_silent(&mut connection);
        proxy.pass();
        connection.read().unwrap();
    });
}

#[test]
fn replies_are_swallowed_until_pass_or_once() {
    with_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let (mut one, mut two) = (connect(&proxy), connect(&proxy));
        proxy.swallow_replies();
        one.send(&["INCR", "n"]).unwrap();
        assert_silent(&mut one);
        assert_eq!(server.get("n").as_deref(), Some("1"));
        proxy.pass();
        assert_eq!(one.command::<i64>(&["INCR", "n"]).unwrap(), 2);
        proxy.swallow_next_reply_to(b"INCR");
        // One write: the reply between two others is lost, wherever the packets end.
        for args in [&["PING"][..], &["INCR", "n"], &["ECHO", "after"]] {
            one.send(args).unwrap();
        }
        assert_eq!(one.read().unwrap(), Value::SimpleString("PONG".to_owned()));
        assert_eq!(one.read().unwrap(), Value::BulkString(b"after".to_vec()));
        assert_eq!(server.get("n").as_deref(), Some("3"));
        assert_eq!(two.command::<i64>(&["INCR", "n"]).unwrap(), 4);
        assert_eq!(proxy.traffic().faults_met, 1);
        proxy.swallow_next_reply_to(b"NEVER");
        proxy.pass();
        assert_eq!(one.command::<String>(&["ECHO", "NEVER"]).unwrap(), "NEVER");
    });
}

#[test]
fn a_message_is_no_reply() {
    with_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let (mut inbox, mut other) = (connect(&proxy), connect(&proxy));
        inbox.command::<Value>(&["SUBSCRIBE", "c"]).unwrap();
        proxy.garbage_next_reply(b"+garbage\r\n");
        assert_eq!(server.query::<i64>(&["PUBLISH", "c", "m"]), 1);
        assert!(matches!(inbox.read().unwrap(), Value::Array(parts) if parts.len() == 3));
        assert_eq!(other.command::<String>(&["PING"]).unwrap(), "garbage");
    });
}

#[test]
fn half_a_reply_and_garbage() {
    with_server(|server| {
        let proxy = Proxy::in_front_of(server);
        server.set("k", "0123456789");
        let mut connection = connect(&proxy);
        proxy.cut_next_reply_after(7);
        connection.send(&["GET", "k"]).unwrap();
        let mut bytes = Vec::new();
        connection.stream().read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"$10\r\n01");
        let mut connection = connect(&proxy);
        proxy.garbage_next_reply(b"\0\x01garbage\r\n");
        assert!(connection.command::<String>(&["GET", "k"]).is_err());
        let (mut one, mut two) = (connect(&proxy), connect(&proxy));
        proxy.fault_next_reply_to(b"GET", ReplyFault::CutAfter(0));
        assert_eq!(one.command::<String>(&["PING"]).unwrap(), "PONG");
        assert!(two.command::<String>(&["GET", "k"]).unwrap_err().is_connection_dropped());
        assert_eq!(one.command::<String>(&["GET", "k"]).unwrap(), "0123456789");
    });
}

#[test]
fn connections_are_cut_reset_and_refused() {
    with_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let ends: [fn(&Proxy); 2] = [Proxy::cut_all, Proxy::reset_all];
        let results = ends.map(|end| {
            let mut connection = connect(&proxy);
            connection.command::<()>(&["PING"]).unwrap();
            end(&proxy);
            connection.stream().read(&mut [0]).map_err(|error| error.kind())
        });
        assert_eq!(results, [Ok(0), Err(ErrorKind::ConnectionReset)]);
        assert_eventually("the server has closed them too", SECOND, || {
            server.info("clients", "connected_clients") == "1"
        });
        let mut open = connect(&proxy);
        open.command::<()>(&["PING"]).unwrap();
        proxy.refuse();
        let refused = TcpStream::connect(proxy.addr()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        open.command::<()>(&["PING"]).unwrap();
        proxy.listen();
        connect(&proxy).command::<()>(&["PING"]).unwrap();
        let addr = proxy.addr();
        drop(proxy);
        assert_eq!(open.stream().read(&mut [0]).unwrap(), 0);
        assert!(TcpStream::connect(addr).is_err());
    });
}

#[test]
fn held_requests_go_out_in_the_chosen_order_even_without_their_clients() {
    each_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let monitor = Monitor::start(server);
        proxy.hold_requests_with(b"RPUSH");
        for value in ["first", "second", "third"] {
            let mut connection = connect(&proxy);
            connection.command::<()>(&["PING"]).unwrap();
            connection.send(&["RPUSH", "list", value]).unwrap();
            connection.send(&["RPUSH", "list", "more"]).unwrap();
            assert_silent(&mut connection);
        }
        assert_eventually("the clients have gone", SECOND, || proxy.traffic().open == 0);
        let held = proxy.held_requests();
        let third = held.iter().find(|request| request.args.contains(&"third".to_owned()));
        assert_eq!((held.len(), third.map(|request| request.connection)), (6, Some(2)));
        proxy.release_requests_in_order(&[0, 2, 1]);
        let list: Vec<String> = server.query(&["LRANGE", "list", "0", "-1"]);
        assert_eq!(list, ["first", "more", "third", "more", "second", "more"]);
        monitor.wait_idle();
        assert_eq!(monitor.count(|line| line.is("RPUSH")), 6);
        assert_eventually("the connections are gone", SECOND, || proxy.connections().is_empty());
        proxy.hold_requests();
        let mut connection = connect(&proxy);
        connection.send(&["PING"]).unwrap();
        assert_silent(&mut connection);
        proxy.pass();
        connection.read().unwrap();
    });
}

#[test]
fn a_request_held_for_a_stopped_server_arrives_after_it_goes_on() {
    with_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let mut connection = connect(&proxy);
        server.pause();
        connection.send(&["SET", "k", "v"]).unwrap();
        assert_silent(&mut connection);
        drop(connection);
        assert_eventually("the client has gone", SECOND, || proxy.traffic().open == 0);
        server.resume();
        assert_eventually("the request is executed", SECOND, || server.exists("k"));
    });
}

#[test]
fn the_target_changes_and_other_protocols_pass() {
    with_server(|server| {
        let echo = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Proxy::start(echo.local_addr().unwrap());
        let thread = std::thread::spawn(move || {
            let mut stream = echo.accept().unwrap().0;
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).unwrap();
            stream.write_all(&bytes).unwrap();
        });
        let mut stream = TcpStream::connect(proxy.addr()).unwrap();
        let bytes = [&[22, 3, 1, 0, 200][..], &[b'x'; 300], b"\r\n\r\n$5\r\n"].concat();
        stream.write_all(&bytes).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut back = Vec::new();
        stream.read_to_end(&mut back).unwrap();
        thread.join().unwrap();
        assert_eq!(back, bytes);
        let handle = proxy.clone();
        handle.set_target(server.addr());
        drop(handle);
        assert_eq!(connect(&proxy).command::<String>(&["PING"]).unwrap(), "PONG");
        server.kill();
        assert!(connect(&proxy).command::<String>(&["PING"]).is_err());
    });
}
