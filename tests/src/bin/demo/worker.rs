//! The worker process: this program again, with a hidden first argument.

use std::env;
use std::io::{self, Write};
use std::process::{self, ExitCode};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use redlatch::{Client, Error, Guard, LockOptions, LostReason};
use redlatch_tests::Process;

use crate::Outcome;
use crate::messages::{Event, GO, Unlocked};
use crate::table::{KEY_LIFE, Keys, Table, Written, lock_name};

/// First argument of a worker.
pub(crate) const SUBCOMMAND: &str = "worker-process";
/// Carries the URL, whose password has no place in a list of processes.
const URL: &str = "REDLATCH_DEMO_URL";
/// Pause after a look at all orders in which none could be taken.
const PAUSE: Duration = Duration::from_millis(30);

/// What a worker process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Works on orders under `SET NX EX` and `DEL`.
    Plain,
    /// Works on orders under redlatch, and checks its lease before it writes.
    Careful,
    /// Works on orders under redlatch, and writes without a check.
    Careless,
    /// Takes one lock and keeps it until told.
    Hold,
}

/// What a worker process is started with.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) task: Task,
    pub(crate) keys: Keys,
    /// Counts from 1.
    pub(crate) number: usize,
    pub(crate) lease: Duration,
}

impl Task {
    const ALL: [Task; 4] = [Task::Plain, Task::Careful, Task::Careless, Task::Hold];

    fn word(self) -> &'static str {
        match self {
            Task::Plain => "plain",
            Task::Careful => "careful",
            Task::Careless => "careless",
            Task::Hold => "hold",
        }
    }
}

impl Job {
    pub(crate) fn name(&self) -> String {
        format!("worker-{}", self.number)
    }

    /// Starts the process, which ends when its handle is dropped or this process dies.
    pub(crate) fn start(&self, url: &str) -> io::Result<Process> {
        let Job { task, keys, number, lease } = self;
        let program = env::current_exe()?;
        Ok(Process::start_with(program, |command| {
            command.args([SUBCOMMAND, task.word(), keys.prefix(), &number.to_string(), &lease.as_millis().to_string()]);
            command.env(URL, url);
        }))
    }

    fn parse(args: &[&str]) -> Outcome<Job> {
        let [word, prefix, number, lease] = args else { return Err("only the demo itself starts workers".into()) };
        let task = Task::ALL.into_iter().find(|task| task.word() == *word);
        Ok(Job {
            task: task.ok_or_else(|| format!("unknown task {word:?}"))?,
            keys: Keys::from_prefix(prefix),
            number: number.parse()?,
            lease: Duration::from_millis(lease.parse()?),
        })
    }
}

/// What a worker process runs.
pub(crate) fn main(args: &[&str]) -> ExitCode {
    match work(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn work(args: &[&str]) -> Outcome<()> {
    // A stopped process does not see its input end; the kernel's signal also reaches that one.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let job = Job::parse(args)?;
    let url = env::var(URL)?;
    let builder = Client::builder(&url).key_prefix(&job.keys.lock_prefix()).label(&job.name());
    let client = builder.fence_retention(KEY_LIFE).build()?;
    let options = LockOptions::new().ttl(job.lease);
    let parent = Parent::listen();
    if job.task == Task::Hold {
        hold(&client, options, &parent)?;
    } else {
        Worker { table: Table::open(&url, &job.keys)?, job, client, options, parent }.run()?;
    }
    Ok(())
}

/// The demo's side of the pipes.
struct Parent {
    lines: Receiver<String>,
}

impl Parent {
    fn listen() -> Parent {
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in io::stdin().lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
            // Nobody is left to work for.
            process::exit(0);
        });
        Parent { lines }
    }

    fn tell(&self, event: &Event) -> io::Result<()> {
        writeln!(io::stdout(), "{event}")
    }

    fn tell_and_wait(&self, event: &Event) -> Outcome<()> {
        self.tell(event)?;
        let answer = self.lines.recv()?;
        if answer == GO { Ok(()) } else { Err(format!("the demo answered {answer:?}").into()) }
    }
}

fn hold(client: &Client, options: LockOptions, parent: &Parent) -> Outcome<()> {
    let lock = client.lock_with(crate::crash::LOCK, options)?;
    parent.tell(&Event::Waits)?;
    let guard = lock.acquire()?;
    parent.tell_and_wait(&Event::Holds { fence: guard.fence() })?;
    let _ = guard.release()?;
    parent.tell(&Event::End)?;
    Ok(())
}

struct Worker {
    job: Job,
    table: Table,
    client: Client,
    options: LockOptions,
    parent: Parent,
}

impl Worker {
    fn run(mut self) -> Outcome<()> {
        self.parent.tell_and_wait(&Event::Ready)?;
        loop {
            let mut orders = self.table.pending()?;
            if orders.is_empty() {
                break;
            }
            // Workers begin at different places, so that they do not all ask for the same lock first.
            let first = (self.job.number - 1) % orders.len();
            orders.rotate_left(first);
            if !self.take_one_of(&orders)? {
                thread::sleep(PAUSE);
            }
        }
        self.parent.tell(&Event::End)?;
        Ok(())
    }

    fn take_one_of(&mut self, orders: &[u32]) -> Outcome<bool> {
        for &order in orders {
            let taken = if self.job.task == Task::Plain { self.plain(order)? } else { self.redlatch(order)? };
            if taken {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The pattern that is found everywhere.
    fn plain(&mut self, order: u32) -> Outcome<bool> {
        let (name, owner, lease) = (lock_name(order), self.job.name(), self.job.lease);
        let asked = Instant::now();
        if !self.table.plain_lock(&name, &owner, lease)? {
            return Ok(false);
        }
        let granted = Instant::now();
        if !self.table.begin(order, None)? {
            self.table.plain_unlock(&name)?;
            return Ok(false);
        }
        self.parent.tell_and_wait(&Event::Took { order, fence: None })?;
        let Written::Accepted { times } = self.table.finish(order, None)? else {
            return Err("the table refused a write without a fence".into());
        };
        let surely_over = granted.elapsed() >= lease;
        let deleted = self.table.plain_unlock(&name)?;
        let surely_live = asked.elapsed() < lease;
        let unlocked = match deleted {
            true if surely_over => Unlocked::Others,
            false if surely_live => Unlocked::Stolen,
            _ => Unlocked::Own,
        };
        self.parent.tell(&Event::Wrote { order, times, unlocked })?;
        Ok(true)
    }

    fn redlatch(&mut self, order: u32) -> Outcome<bool> {
        let lock = self.client.lock_with(&lock_name(order), self.options.clone())?;
        let Some(guard) = lock.try_acquire()? else { return Ok(false) };
        let fence = guard.fence();
        if !self.table.begin(order, Some(fence))? {
            release(guard)?;
            return Ok(false);
        }
        self.parent.tell_and_wait(&Event::Took { order, fence: Some(fence) })?;
        if self.job.task == Task::Careful
            && let Err(lost) = guard.check()
        {
            let Error::Lost(info) = lost else { return Err(lost.into()) };
            release(guard)?;
            self.parent.tell(&Event::Lost { order, reason: info.reason().as_str().to_owned() })?;
            return Ok(true);
        }
        let written = self.table.finish(order, Some(fence))?;
        let unlocked = release(guard)?;
        self.parent.tell(&match written {
            Written::Accepted { times } => Event::Wrote { order, times, unlocked },
            Written::Refused { highest } => Event::Refused { order, fence, highest },
        })?;
        Ok(true)
    }
}

fn release(guard: Guard) -> Outcome<Unlocked> {
    match guard.release() {
        Err(Error::Lost(info)) if info.reason() == LostReason::Taken => Ok(Unlocked::Stolen),
        Ok(_) | Err(Error::Lost(_)) => Ok(Unlocked::Own),
        Err(error) => Err(error.into()),
    }
}
