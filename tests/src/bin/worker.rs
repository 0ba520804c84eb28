//! A process of its own that tests steer by lines: it holds, waits, loads, forks, and says what happened.
//!
//! Reads one command a line on standard input and answers each with one line on standard output: a word and
//! `name=value` fields, of which `text=` is the last and runs to the end of the line. Names have no blanks.
//!
//! | command | answer |
//! |---|---|
//! | `open URL [OPTION=VALUE …]` | `opened` |
//! | `acquire NAME [OPTION=VALUE …]` | `acquired` with `fence`, `token`, `remaining_ms`, or `busy` |
//! | `try NAME […]` | as `acquire`, asking once |
//! | `acquire_many PREFIX COUNT […]` | `acquired_many`, for leases named PREFIX0 and so on |
//! | `check NAME` | `checked` with `held`, `remaining_ms` and `lost`, a reason or `-` |
//! | `renew NAME` | `renewed` with `remaining_ms` |
//! | `release NAME` | `released` with `outcome` `released`, `still_held` or `unconfirmed` |
//! | `drop NAME` | `dropped`: the guard or lease was dropped instead |
//! | `load THREADS PREFIX […]` | `loaded`: threads acquire and release locks of their own, until `calm` |
//! | `calm` | `calmed` with `rounds` and `failures` |
//! | `stats` | `stats` with every counter of the client |
//! | `threads` | `threads` with the `count` and `names` of redlatch's own threads |
//! | `log TEXT` | `logged`: a log event on this thread, between those of redlatch |
//! | `close` | `closed`: the client, not the process |
//! | `fork [after_fork=true]; COMMAND; …` | the child's answers, with `child=PID`, then `child_exited` with `status` |
//! | `end` | with `@THREAD` only: `ended`, the thread is gone and has released nothing |
//! | `exit` | the process ends without dropping anything |
//!
//! Options of `open` are named as the setters of the client's builder, times with `_ms`. Those of a lock are `wait_ms`
//! (without it an acquire has no limit), `ttl_ms`, `max_hold_ms`, `auto_renew=false`, `as=lease`, `panic_on_lost=true`.
//!
//! `@THREAD` before a command runs it on that thread, started when first named, whose answers have `thread=THREAD`.
//! Errors are `error` with `kind`, `lost` and `text`. A lost lease is told by `lost` with `name`, `fence`, `reason`.
//! Each line has `at_ms`, the machine's suspend-aware clock; calls that may block have `took_ms`. The end of the
//! input drops everything. Log events of every level go to standard error.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use redlatch::{Client, Error, Guard, Lease, Lock, LockOptions, LostInfo, LostReason, Released, Stats};

fn main() {
    let logs = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false);
    logs.with_writer(io::stderr).init();
    let mut worker = Worker::default();
    worker.say(format_args!("ready pid={}", std::process::id()));
    let mut threads = HashMap::new();
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        match line.strip_prefix('@') {
            Some(line) => on_thread(&mut threads, &worker.client, line),
            None => worker.run(&line),
        }
    }
}

/// The client, once it is open; shared by the threads of the process.
type Shared = Arc<Mutex<Option<Client>>>;

/// One thread's part: what it holds, and how its lines are marked.
#[derive(Default)]
struct Worker {
    client: Shared,
    held: HashMap<String, Vec<Held>>,
    many: Vec<Lease>,
    load: Option<Load>,
    mark: String,
}

enum Held {
    Guard(Guard),
    Lease(Lease),
}

struct Load {
    stop: Arc<AtomicBool>,
    failures: Arc<AtomicU64>,
    threads: Vec<JoinHandle<u64>>,
}

/// Threads by name: where their commands go, and the thread.
type Threads = HashMap<String, (Sender<String>, JoinHandle<()>)>;

fn on_thread(threads: &mut Threads, client: &Shared, line: &str) {
    let (name, command) = line.split_once(' ').unwrap_or((line, ""));
    if command == "end" {
        if let Some((commands, thread)) = threads.remove(name) {
            drop(commands);
            let panicked = thread.join().is_err();
            say(format_args!("ended thread={name} panicked={panicked}"));
        }
        return;
    }
    let (commands, _) = threads.entry(name.to_owned()).or_insert_with(|| {
        let (commands, queue) = mpsc::channel::<String>();
        let mark = format!(" thread={name}");
        let client = client.clone();
        let thread = std::thread::spawn(move || {
            let mut worker = Worker { client, mark, ..Worker::default() };
            queue.iter().for_each(|line| worker.run(&line));
            // The thread ends as one does whose guards are still on a stack that nobody unwinds.
            worker.held.into_values().flatten().for_each(Held::forget);
        });
        (commands, thread)
    });
    let _ = commands.send(command.to_owned());
}

/// Words of a command and its `name=value` options.
struct Command<'a> {
    words: Vec<&'a str>,
    options: HashMap<&'a str, &'a str>,
}

impl<'a> Command<'a> {
    fn parse(line: &'a str) -> Command<'a> {
        let (options, words) = line.split_whitespace().partition::<Vec<_>, _>(|word| word.contains('='));
        Command { words, options: options.into_iter().filter_map(|option| option.split_once('=')).collect() }
    }

    fn word(&self, position: usize) -> &'a str {
        self.words.get(position).copied().unwrap_or_default()
    }

    fn number(&self, option: &str) -> Option<u32> {
        self.options.get(option).map(|text| text.parse().expect("the option is a number"))
    }

    fn millis(&self, option: &str) -> Option<Duration> {
        self.number(option).map(|number| Duration::from_millis(number.into()))
    }

    fn lock_options(&self, mark: &str) -> LockOptions {
        let (mark, panics) = (mark.to_owned(), self.options.contains_key("panic_on_lost"));
        let mut options = LockOptions::new().on_lost(move |info| {
            say(format_args!("lost{mark} {}", describe(info)));
            assert!(!panics, "the callback was told to panic");
        });
        if let Some(ttl) = self.millis("ttl_ms") {
            options = options.ttl(ttl);
        }
        if let Some(max_hold) = self.millis("max_hold_ms") {
            options = options.max_hold(max_hold);
        }
        options.auto_renew(self.options.get("auto_renew") != Some(&"false"))
    }
}

impl Worker {
    fn run(&mut self, line: &str) {
        let command = Command::parse(line);
        let outcome = match command.word(0) {
            "open" => self.open(&command),
            "acquire" => self.acquire(&command, command.millis("wait_ms")),
            "try" => self.acquire(&command, Some(Duration::ZERO)),
            "acquire_many" => self.acquire_many(&command),
            "check" => self.check(command.word(1)),
            "renew" => self.renew(command.word(1)),
            "release" => self.release(command.word(1)),
            "drop" => {
                let began = Instant::now();
                drop(self.held.get_mut(command.word(1)).and_then(Vec::pop));
                self.say(format_args!("dropped name={} took_ms={}", command.word(1), took(began)));
                Ok(())
            }
            "load" => self.load(&command),
            "calm" => {
                self.calm();
                Ok(())
            }
            "stats" => self.with_client(|client| Ok(client.stats())).map(|stats| self.say_stats(&stats)),
            "threads" => {
                let mut names = redlatch_tests::thread_names();
                names.retain(|name| name.starts_with("redlatch"));
                self.say(format_args!("threads count={} names={}", names.len(), names.join(",")));
                Ok(())
            }
            "log" => {
                tracing::info!("{line}");
                self.say(format_args!("logged"));
                Ok(())
            }
            "close" => {
                let began = Instant::now();
                let closed = self.with_client(|client| {
                    client.close();
                    Ok(())
                });
                closed.map(|()| self.say(format_args!("closed took_ms={}", took(began))))
            }
            "fork" => {
                self.fork(line);
                Ok(())
            }
            "exit" => std::process::exit(0),
            other => {
                self.say(format_args!("unknown command={other}"));
                Ok(())
            }
        };
        if let Err(error) = outcome {
            self.say_error(&error);
        }
    }

    fn open(&mut self, command: &Command<'_>) -> Result<(), Error> {
        let mut builder = Client::builder(command.word(1));
        for (option, value) in &command.options {
            builder = match *option {
                "label" => builder.label(value),
                "key_prefix" => builder.key_prefix(value),
                "pool_size" => builder.pool_size(command.number(option).unwrap_or_default()),
                "renewal_threads" => builder.renewal_threads(command.number(option).unwrap_or_default()),
                "connect_timeout_ms" => builder.connect_timeout(command.millis(option).unwrap_or_default()),
                "io_timeout_ms" => builder.io_timeout(command.millis(option).unwrap_or_default()),
                "pool_timeout_ms" => builder.pool_timeout(command.millis(option).unwrap_or_default()),
                "unavailable_after_ms" => builder.unavailable_after(command.millis(option).unwrap_or_default()),
                "turn_ms" => builder.turn(command.millis(option).unwrap_or_default()),
                other => panic!("open has no option {other}"),
            };
        }
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(builder.build()?);
        self.say(format_args!("opened"));
        Ok(())
    }

    fn with_client<T>(&self, work: impl FnOnce(&Client) -> Result<T, Error>) -> Result<T, Error> {
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner).clone();
        work(&client.expect("`open` comes first"))
    }

    fn acquire(&mut self, command: &Command<'_>, wait: Option<Duration>) -> Result<(), Error> {
        let (name, options) = (command.word(1), command.lock_options(&self.mark));
        let began = Instant::now();
        let as_lease = command.options.get("as") == Some(&"lease");
        let held = self.with_client(|client| {
            if as_lease {
                let lease = match wait {
                    Some(wait) => client.try_lease_for(name, options, wait)?,
                    None => Some(client.lease(name, options)?),
                };
                return Ok(lease.map(Held::Lease));
            }
            Ok(grab(&client.lock_with(name, options)?, wait)?.map(Held::Guard))
        })?;
        let took = took(began);
        let Some(held) = held else {
            self.say(format_args!("busy name={name} took_ms={took}"));
            return Ok(());
        };
        let (fence, token, remaining) = match &held {
            Held::Guard(guard) => (guard.fence(), guard.token(), guard.remaining()),
            Held::Lease(lease) => (lease.fence(), lease.token(), lease.remaining()),
        };
        let (token, remaining) = (token.as_str(), millis(remaining));
        self.say(format_args!(
            "acquired name={name} fence={fence} token={token} remaining_ms={remaining} took_ms={took}"
        ));
        self.held.entry(name.to_owned()).or_default().push(held);
        Ok(())
    }

    fn acquire_many(&mut self, command: &Command<'_>) -> Result<(), Error> {
        let (prefix, count) = (command.word(1), command.word(2).parse().expect("COUNT is a number"));
        let began = Instant::now();
        for number in 0..count {
            let options = command.lock_options(&self.mark);
            self.many.push(self.with_client(|client| client.lease(&format!("{prefix}{number}"), options))?);
        }
        self.say(format_args!("acquired_many name={prefix} count={count} took_ms={}", took(began)));
        Ok(())
    }

    fn held(&self, name: &str) -> &Held {
        self.held.get(name).and_then(|held| held.last()).expect("the lock was acquired here")
    }

    fn check(&self, name: &str) -> Result<(), Error> {
        let (held, remaining, lost) = match self.held(name) {
            Held::Guard(guard) => (guard.is_held(), guard.remaining(), guard.lost()),
            Held::Lease(lease) => (lease.is_held(), lease.remaining(), lease.lost()),
        };
        let lost = lost.map_or("-", LostReason::as_str);
        self.say(format_args!("checked name={name} held={held} remaining_ms={} lost={lost}", millis(remaining)));
        Ok(())
    }

    fn renew(&self, name: &str) -> Result<(), Error> {
        let began = Instant::now();
        let remaining = match self.held(name) {
            Held::Guard(guard) => guard.renew().map(|()| guard.remaining()),
            Held::Lease(lease) => lease.renew().map(|()| lease.remaining()),
        }?;
        self.say(format_args!("renewed name={name} remaining_ms={} took_ms={}", millis(remaining), took(began)));
        Ok(())
    }

    fn release(&mut self, name: &str) -> Result<(), Error> {
        let held = self.held.get_mut(name).and_then(Vec::pop).expect("the lock was acquired here");
        let began = Instant::now();
        let released = match held {
            Held::Guard(guard) => guard.release(),
            Held::Lease(lease) => lease.release(),
        };
        let outcome = match released? {
            Released::Released => "released",
            Released::StillHeld(_) => "still_held",
            Released::Unconfirmed => "unconfirmed",
        };
        self.say(format_args!("released name={name} outcome={outcome} took_ms={}", took(began)));
        Ok(())
    }

    fn load(&mut self, command: &Command<'_>) -> Result<(), Error> {
        let (stop, failures) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let mut threads = Vec::new();
        for number in 0..command.word(1).parse().expect("THREADS is a number") {
            let name = format!("{}{number}", command.word(2));
            let options = command.lock_options(&self.mark);
            let lock = self.with_client(|client| client.lock_with(&name, options))?;
            let (stop, failures) = (stop.clone(), failures.clone());
            let work = move || {
                let mut rounds = 0;
                while !stop.load(Ordering::Relaxed) {
                    rounds += 1;
                    let released = match lock.try_acquire() {
                        Ok(Some(guard)) => guard.release().is_ok(),
                        Ok(None) | Err(_) => false,
                    };
                    failures.fetch_add(u64::from(!released), Ordering::Relaxed);
                }
                rounds
            };
            threads.push(std::thread::spawn(work));
        }
        self.load = Some(Load { stop, failures, threads });
        self.say(format_args!("loaded"));
        Ok(())
    }

    fn calm(&mut self) {
        let Some(load) = self.load.take() else { return };
        load.stop.store(true, Ordering::Relaxed);
        let rounds: u64 = load.threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum();
        self.say(format_args!("calmed rounds={rounds} failures={}", load.failures.load(Ordering::Relaxed)));
    }

    /// The child runs the commands that follow and ends, the parent waits for it.
    fn fork(&mut self, line: &str) {
        let mut commands = line.split(';');
        let hook = commands.next().is_some_and(|first| first.contains("after_fork=true"));
        match fork::fork().expect("the system can fork") {
            fork::Fork::Child => {
                if hook {
                    redlatch::after_fork();
                }
                self.mark = format!(" child={}", std::process::id());
                commands.for_each(|command| self.run(command));
                drop(std::mem::take(self));
                std::process::exit(0);
            }
            fork::Fork::Parent(pid) => {
                let status = fork::waitpid(pid).expect("the child can be waited for");
                self.say(format_args!("child_exited pid={pid} status={status}"));
            }
        }
    }

    fn say(&self, line: std::fmt::Arguments<'_>) {
        let line = line.to_string();
        let (word, fields) = line.split_once(' ').unwrap_or((&line, ""));
        say(format_args!("{word}{} {fields}", self.mark));
    }

    fn say_error(&self, error: &Error) {
        let (kind, lost) = match error {
            Error::Config { .. } => ("config", "-"),
            Error::Lost(info) => ("lost", info.reason().as_str()),
            Error::NotHeld { .. } => ("not_held", "-"),
            Error::Unavailable { .. } => ("unavailable", "-"),
            Error::Authentication { .. } => ("authentication", "-"),
            Error::Permission { .. } => ("permission", "-"),
            Error::KeyType { .. } => ("key_type", "-"),
            Error::Incompatible { .. } => ("incompatible", "-"),
            Error::Closed { .. } => ("closed", "-"),
            _ => ("other", "-"),
        };
        self.say(format_args!("error kind={kind} lost={lost} text={error}"));
    }

    fn say_stats(&self, stats: &Stats) {
        let counters = [
            ("acquired", stats.acquired),
            ("busy", stats.busy),
            ("timed_out", stats.timed_out),
            ("unavailable", stats.unavailable),
            ("acquire_failed", stats.acquire_failed),
            ("polls", stats.poll_wakeups),
            ("renewed", stats.renewed),
            ("renewal_retried", stats.renewal_retried),
            ("renewal_failed", stats.renewal_failed),
            ("renewal_late", stats.renewal_late),
            ("released", stats.released),
            ("release_failed", stats.release_failed),
            ("release_unconfirmed", stats.release_unconfirmed),
            ("background_released", stats.background_released),
            ("background_gave_up", stats.background_gave_up),
            ("abandoned", stats.abandoned),
            ("publish_denied", stats.publish_denied),
            ("callback_panicked", stats.callback_panicked),
            ("thread_panicked", stats.thread_panicked),
            ("held_now", stats.held_now),
            ("waiting_now", stats.waiting_now),
            ("background_now", stats.background_now),
            ("lost_total", stats.lost_total()),
        ];
        let fields: Vec<String> = counters.iter().map(|(name, value)| format!("{name}={value}")).collect();
        self.say(format_args!("stats {}", fields.join(" ")));
    }
}

impl Held {
    fn forget(self) {
        match self {
            Held::Guard(guard) => guard.forget(),
            Held::Lease(lease) => std::mem::forget(lease),
        }
    }
}

fn grab(lock: &Lock, wait: Option<Duration>) -> Result<Option<Guard>, Error> {
    match wait {
        Some(wait) => lock.try_acquire_for(wait),
        None => lock.acquire().map(Some),
    }
}

fn describe(info: &LostInfo) -> String {
    format!("name={} fence={} reason={}", info.name(), info.fence(), info.reason())
}

/// Writes a line with the time in one piece, so that lines of several threads and processes do not mix.
fn say(line: std::fmt::Arguments<'_>) {
    let line = line.to_string();
    let (word, fields) = line.split_once(' ').unwrap_or((&line, ""));
    let whole = format!("{word} at_ms={:.3} {fields}", now_ms());
    let mut output = io::stdout().lock();
    let _ = writeln!(output, "{}", whole.trim_end()).and_then(|()| output.flush());
}

fn now_ms() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

fn millis(span: Duration) -> String {
    format!("{:.3}", span.as_secs_f64() * 1e3)
}

fn took(began: Instant) -> String {
    millis(began.elapsed())
}
