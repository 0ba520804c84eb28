//! Servers, capture, helper processes and what is known of this process.

use std::time::{Duration, Instant};

use redlatch_tests::{
    Monitor, Process, Server, any_server, assert_eventually, each_server, each_server_with, eventually, rss_bytes,
    thread_count, thread_names,
};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_server_answers_and_is_gone_after_drop() {
    each_server(|server| {
        server.set("k", "v");
        assert_eq!(server.get("k").as_deref(), Some("v"));
        assert_eq!((server.pttl("k"), server.pttl("none")), (-1, -2));
        assert!(server.exists("k") && !server.exists("none"));
        assert_eq!(server.keys("*"), ["k"]);
        let mut other = redis::Client::open(server.url_db(1)).unwrap().get_connection().unwrap();
        assert!(!redis::cmd("EXISTS").arg("k").query::<bool>(&mut other).unwrap());
        assert!(server.del("k"));
        server.set("k", "v");
        server.flush();
        assert!(server.keys("*").is_empty());
        assert_ne!(server.port(), Server::start(server.kind()).port());
    });
    let Some(kind) = any_server() else { return };
    let server = Server::start(kind);
    let (addr, dir) = (server.addr(), server.dir().to_owned());
    server.pause();
    drop(server);
    assert!(std::net::TcpStream::connect(addr).is_err());
    assert!(!dir.exists());
}

#[test]
fn a_paused_server_answers_only_after_resume() {
    each_server(|server| {
        let mut connection = server.raw_connection();
        server.pause();
        connection.send(&["PING"]).unwrap();
        let limit = Duration::from_millis(50);
        connection.stream().set_read_timeout(Some(limit)).unwrap();
        assert!(connection.read().unwrap_err().is_timeout());
        server.resume();
        connection.stream().set_read_timeout(Some(5 * SECOND)).unwrap();
        assert_eq!(connection.read().unwrap(), redis::Value::SimpleString("PONG".to_owned()));
    });
}

#[test]
fn a_server_restarts_on_its_port() {
    each_server(|server| {
        let (url, pid) = (server.url(), server.pid());
        server.set("k", "v");
        server.kill();
        assert!(!server.is_running());
        assert!(redis::Client::open(url.as_str()).unwrap().get_connection().is_err());
        server.restart();
        assert!(server.is_running() && server.url() == url && server.pid() != pid);
        assert!(!server.exists("k"));
        server.stop();
        assert!(!server.is_running());
        server.restart();
        let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
        redis::cmd("SET").arg("k").arg("v").exec(&mut connection).unwrap();
        assert!(server.exists("k"));
    });
}

#[test]
fn passwords_users_sockets_and_replicas() {
    let configure = |builder: redlatch_tests::ServerBuilder| {
        builder
            .password("p w@:/")
            .user("app on >se:cret ~* &* +@all -subscribe")
            .config("maxmemory-policy", "noeviction")
            .args(["--databases", "4"])
            .unix_socket(true)
    };
    each_server_with(configure, |server| {
        let open = |url: String| redis::Client::open(url).unwrap().get_connection();
        for url in [server.url(), server.url_as("app", "se:cret"), server.unix_url()] {
            redis::cmd("SET").arg("k").arg("v").exec(&mut open(url).unwrap()).unwrap();
        }
        assert!(
            open(format!("redis://{}/", server.addr()))
                .and_then(|mut connection| { redis::cmd("GET").arg("k").query::<String>(&mut connection) })
                .is_err()
        );
        let databases: Vec<String> = server.query(&["CONFIG", "GET", "databases"]);
        assert_eq!(databases, ["databases", "4"]);
        let mut app = open(server.url_as("app", "se:cret")).unwrap();
        let refused = redis::cmd("SUBSCRIBE").arg("c").exec(&mut app).unwrap_err();
        assert_eq!(refused.code(), Some("NOPERM"));
        let replica = Server::builder(server.kind()).replica_of(server).start();
        replica.wait_synced();
        assert_eq!(replica.info("replication", "role"), "slave");
        assert_eq!(replica.get("k").as_deref(), Some("v"));
    });
}

#[test]
fn command_counts_include_what_scripts_call() {
    each_server(|server| {
        let mut connection = server.connection();
        server.reset_stats();
        let script = redis::Script::new("return redis.call('INCR', KEYS[1])");
        assert_eq!(script.key("n").invoke::<i64>(&mut connection).unwrap(), 1);
        let counts = server.command_counts();
        assert_eq!(counts.get("incr"), Some(&1), "{counts:?}");
        assert_eq!(counts.get("evalsha"), Some(&2), "{counts:?}");
        assert_eq!(counts.get("set"), None);
    });
}

#[test]
fn a_monitor_separates_clients_from_scripts_and_from_the_harness() {
    each_server(|server| {
        let mut connection = server.connection();
        let monitor = Monitor::start(server);
        let key = "a \"b\"\r\n\\é锁";
        let script = "return redis.call('SET', KEYS[1], ARGV[1])";
        redis::cmd("EVAL").arg(script).arg(1).arg(key).arg("v").exec(&mut connection).unwrap();
        assert_eq!(server.get(key).as_deref(), Some("v"));
        monitor.wait_idle();
        let clients = monitor.client_commands();
        assert_eq!(clients.len(), 1, "{clients:?}");
        assert_eq!(clients[0].args, ["EVAL", script, "1", key, "v"]);
        assert_eq!(clients[0].db, 0);
        let inner: Vec<_> = monitor.commands().into_iter().filter(|line| line.lua).collect();
        assert_eq!(inner.len(), 1, "{inner:?}");
        assert!(inner[0].is("SET") && inner[0].has(key) && inner[0].at >= clients[0].at);
        assert_eq!(monitor.count(|line| line.is("eval") && line.mentions("ARGV")), 1);
        monitor.clear();
        redis::cmd("PING").exec(&mut connection).unwrap();
        monitor.wait_for("PING is shown", SECOND, |line| line.is("PING"));
        assert!(monitor.lines().iter().all(|line| !line.contains("EVAL")));
        assert_eq!(server.query::<i64>(&["DBSIZE"]), 1);
    });
}

#[test]
fn a_process_is_steered_by_lines() {
    let script = "echo ready; while read line; do echo noise; echo \"got $line\"; done; echo bye >&2; exit 3";
    let mut process = Process::start("sh", ["-c", script]);
    process.expect("ready", 5 * SECOND);
    process.send("one");
    assert_eq!(process.expect("got", 5 * SECOND), "got one");
    process.pause();
    process.send("two");
    assert_eq!(process.try_expect("got", Duration::from_millis(50)), None);
    process.resume();
    assert_eq!(process.expect("got", 5 * SECOND), "got two");
    assert_eq!(process.wait_exit(Duration::ZERO), None);
    process.close_input();
    assert_eq!(process.wait_exit(5 * SECOND).unwrap().code(), Some(3));
    assert_eq!(process.lines(), ["ready", "noise", "got one", "noise", "got two"]);
    assert_eq!(process.error_lines(), ["bye"]);

    let mut process = Process::start_with("sh", |command| {
        command.args(["-c", "echo $WORD; read line"]).env("WORD", "hello");
    });
    process.expect("hello", 5 * SECOND);
    process.kill9();
    let status = process.wait_exit(SECOND).unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
}

#[test]
fn a_failure_names_the_kind_of_server() {
    let Some(kind) = any_server() else { return };
    let failed = std::panic::catch_unwind(|| each_server(|_| panic!("as it should")));
    let text = *failed.unwrap_err().downcast::<String>().unwrap();
    assert_eq!(text, format!("on {kind}: as it should"));
}

#[test]
fn conditions_are_polled_until_the_limit() {
    let begin = Instant::now();
    assert!(!eventually(Duration::from_millis(30), || false));
    assert!(begin.elapsed() >= Duration::from_millis(30));
    assert!(eventually(Duration::ZERO, || true));
    let failed = std::panic::catch_unwind(|| {
        assert_eventually("the sky falls", Duration::from_millis(5), || false);
    });
    let text = *failed.unwrap_err().downcast::<String>().unwrap();
    assert!(text.contains("the sky falls"), "{text}");
}

#[test]
fn threads_of_this_process_are_seen_and_those_of_the_harness_are_not() {
    let (stop, wait) = std::sync::mpsc::channel::<()>();
    let builder = std::thread::Builder::new().name("visible".to_owned());
    let thread = builder.spawn(move || wait.recv()).unwrap();
    assert_eventually("the thread has its name", SECOND, || thread_names().contains(&"visible".to_owned()));
    assert!(thread_count() >= 2);
    let process = Process::start("cat", [""; 0]);
    assert!(thread_names().iter().all(|name| !name.starts_with("rlt-")));
    drop((stop, process));
    assert!(thread.join().unwrap().is_err());
    assert!(rss_bytes() > 1_000_000);
}
