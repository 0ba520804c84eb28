//! Takes one defence after another out of a copy of the sources, and demands that the test which shows it fails.
//!
//! `mutations [--only PART,…]`: all patches of `tests/mutations`, or those whose names contain one of these parts.
//! `mutations --list [--only PART,…]`: what each of them is. The exit status is 1 when a mutation survives or proves nothing,
//! and 2 when the run cannot begin.
//!
//! First every test that is named must pass without a mutation. Then, for each one, the copy is patched and built, and its
//! test runs:
//!
//! | result | meaning |
//! |---|---|
//! | killed | the test failed, by a panic or an assertion of its own |
//! | survived | it passed: nothing would notice if the defence were gone |
//! | does not build | the patch is no program any more, and proves nothing |
//! | no test ran | nothing has the name |
//! | hung | the test did not end by itself, which is no assertion |
//! | broke off | something else failed: a server that did not start, a process that crashed |
//! | skipped | Python, and there is no environment for it: `make setup` |
//!
//! Copy, builds and a log of each run are below `mutations` in cargo's target directory. Programs that none of the tests starts
//! are left out of the copy: they would be linked anew for each mutation.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a program for people")]

mod job;
mod python;
mod tree;
mod verdict;

use std::process::ExitCode;
use std::time::Instant;

use redlatch_tests::mutations::Mutation;

use job::Workshop;
use verdict::Verdict;

fn main() -> ExitCode {
    let (mut only, mut list) = (String::new(), false);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--list" => list = true,
            "--only" => only = words.next().unwrap_or_default(),
            _ => {
                eprintln!("usage: mutations [--list] [--only PART,...]");
                return ExitCode::from(2);
            }
        }
    }
    let chosen = match Mutation::all() {
        Ok(all) => all
            .into_iter()
            .filter(|mutation| only.split(',').any(|part| mutation.name.contains(part)))
            .collect::<Vec<_>>(),
        Err(error) => return cannot_begin(&error),
    };
    if chosen.is_empty() {
        return cannot_begin(&format!("no mutation has {only:?} in its name"));
    }
    if list {
        for mutation in &chosen {
            println!("{}\n  {}\n  Without it: {}", mutation.name, mutation.defence, mutation.fault);
        }
        return ExitCode::SUCCESS;
    }
    let workshop = match Workshop::prepare(&chosen) {
        Ok(workshop) => workshop,
        Err(error) => return cannot_begin(&error),
    };
    println!("mutations: {} tests without a mutation", chosen.len());
    if let Err(error) = workshop.all_pass(&chosen) {
        return cannot_begin(&error);
    }
    let mut good = true;
    for mutation in &chosen {
        let began = Instant::now();
        let verdict = workshop.run(mutation);
        good &= matches!(verdict, Verdict::Killed(_) | Verdict::Skipped(_));
        println!(
            "{:<14} {:<44} {:>4} s  {}",
            verdict.word(),
            mutation.name,
            began.elapsed().as_secs(),
            verdict.words()
        );
    }
    println!("mutations: logs in {}", workshop.logs().display());
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn cannot_begin(reason: &str) -> ExitCode {
    eprintln!("mutations: {reason}");
    ExitCode::from(2)
}
