//! Calls the targets in `cargo test`: with every input of the corpus, then with mutations of these.
//!
//! The mutations are the same in every run, so that a change passes or fails whoever tests it. With
//! `REDLATCH_FUZZ_SECONDS`, which `make fuzz` sets where libFuzzer cannot run, they are new ones, for that long; of the
//! targets in `REDLATCH_FUZZ_TARGETS` only.

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::clock::Clock;

/// Mutated inputs of one target in a plain run.
const CASES: u32 = 3_000;

/// What an input may allocate at one time: this, and [`EACH`] for each of its bytes.
const ALLOCATED: u64 = 256 * 1024;
const EACH: u64 = 1_024;

/// The same for an answer. Before the parser of `redis` has the values of an array it reserves room for as many as the
/// server says, 4,096 at most, and arrays are nested 100 deep at most.
const RESERVED: u64 = 100 * 4_096 * size_of::<redis::Value>() as u64;

/// Words that the inputs are made of.
const WORDS: [&[u8]; 46] = [
    b"\r\n",
    b"\n",
    b" ",
    b"@",
    b":",
    b"/",
    b"//",
    b"?",
    b"#",
    b"%",
    b"%2F",
    b"%40",
    b"&",
    b"=",
    b",",
    b"[::1]",
    b"[",
    b"]",
    b"{",
    b"}",
    b"{}",
    b"{a}",
    b":redlatch:",
    b":redlatch",
    b"$",
    b"*1\r\n",
    b"*5\r\n",
    b"$-1\r\n",
    b":-1\r\n",
    b"-ERR ",
    b"-MOVED ",
    b"$0\r\n\r\n",
    b"0",
    b"-1",
    b"1",
    b"9223372036854775807",
    b"18446744073709551615",
    b"1e308",
    b"NaN",
    b"redis",
    b"rediss",
    b"+sentinel",
    b"+cluster",
    b"unix",
    b"\xff\xfe",
    b"\xc3\xa9",
];

#[derive(Clone, Debug)]
enum Mutation {
    Insert(Index, Vec<u8>),
    Word(Index, Index),
    Remove(Index, usize),
    Change(Index, u8),
    Repeat(Index, usize, usize),
    Number(Index, i64),
    /// From somewhere in another input on.
    Splice(Index, Index, Index),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let at = any::<Index>;
    prop_oneof![
        (at(), prop::collection::vec(any::<u8>(), 1..8)).prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        (at(), at()).prop_map(|(at, word)| Mutation::Word(at, word)),
        (at(), 1..12usize).prop_map(|(at, length)| Mutation::Remove(at, length)),
        (at(), any::<u8>()).prop_map(|(at, byte)| Mutation::Change(at, byte)),
        (at(), 1..32usize, 1..64usize).prop_map(|(at, length, times)| Mutation::Repeat(at, length, times)),
        (at(), any::<i64>()).prop_map(|(at, number)| Mutation::Number(at, number)),
        (at(), at(), at()).prop_map(|(at, other, from)| Mutation::Splice(at, other, from)),
    ]
}

impl Mutation {
    fn apply(&self, input: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let place = |at: &Index, length: usize| at.index(length + 1);
        match self {
            Mutation::Insert(at, bytes) => insert(input, place(at, input.len()), bytes),
            Mutation::Word(at, word) => insert(input, place(at, input.len()), WORDS[word.index(WORDS.len())]),
            Mutation::Number(at, number) => insert(input, place(at, input.len()), number.to_string().as_bytes()),
            Mutation::Remove(at, length) => {
                let from = place(at, input.len());
                input.drain(from..input.len().min(from + length));
            }
            Mutation::Change(at, byte) => {
                let at = place(at, input.len());
                if let Some(old) = input.get_mut(at) {
                    *old = *byte;
                }
            }
            Mutation::Repeat(at, length, times) => {
                let from = place(at, input.len());
                let piece = input[from..input.len().min(from + length)].repeat(*times);
                insert(input, from, &piece);
            }
            Mutation::Splice(at, other, from) => {
                let other = &corpus[other.index(corpus.len())];
                input.truncate(place(at, input.len()));
                input.extend_from_slice(&other[place(from, other.len())..]);
            }
        }
    }
}

fn insert(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    input.splice(at..at, bytes.iter().copied());
}

/// Runs one target; `target` is the name of its folder, and `allocated` what an empty input may allocate.
fn drive(target: &str, property: fn(&[u8]), allocated: u64) {
    if std::env::var("REDLATCH_FUZZ_TARGETS").is_ok_and(|asked| !asked.split(' ').any(|name| name == target)) {
        return;
    }
    let folder = root().join("tests/fuzz/corpus").join(target);
    let corpus = corpus(&folder);
    assert!(!corpus.is_empty(), "no inputs in {}", folder.display());
    let fails = |input: &[u8]| {
        let mut failed = false;
        // A panic must not leave the measurement.
        let most = allocation_counter::measure(|| failed = catch_unwind(|| property(input)).is_err()).bytes_max;
        let too_much = most > allocated + EACH * input.len() as u64;
        if too_much && !failed {
            println!("{most} bytes are allocated for an input of {}", input.len());
        }
        failed || too_much
    };
    // What the first calls set up for good is no input's affair.
    let _ = catch_unwind(|| corpus.iter().for_each(|(_, input)| property(input)));
    let failed: Vec<&String> = corpus.iter().filter(|(_, input)| fails(input)).map(|(name, _)| name).collect();
    assert!(failed.is_empty(), "it fails for {failed:?} in {}", folder.display());
    let inputs: Vec<Vec<u8>> = corpus.into_iter().map(|(_, input)| input).collect();
    let mutated = (any::<Index>(), prop::collection::vec(mutation(), 1..12));
    let run = |rng: TestRng| {
        let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
        let mut runner = TestRunner::new_with_rng(config, rng);
        runner.run(&mutated, |(seed, mutations)| {
            let mut input = inputs[seed.index(inputs.len())].clone();
            mutations.iter().for_each(|mutation| mutation.apply(&mut input, &inputs));
            input.truncate(8 * 1024);
            if fails(&input) { Err(TestCaseError::fail(kept(target, &input))) } else { Ok(()) }
        })
    };
    let variable = |name| std::env::var(name).unwrap_or_default();
    let Ok(seconds) = variable("REDLATCH_FUZZ_SECONDS").parse() else {
        run(TestRng::deterministic_rng(RngAlgorithm::ChaCha)).unwrap_or_else(|error| panic!("{target}: {error}"));
        return;
    };
    let targets = variable("REDLATCH_FUZZ_TARGETS");
    if !targets.is_empty() && !targets.split(' ').any(|name| name == target) {
        return;
    }
    let end = Clock::System.now().after(Duration::from_secs(seconds));
    let mut rounds = 0;
    while Clock::System.now() < end {
        run(TestRng::from_seed(RngAlgorithm::ChaCha, &fastrand_seed()))
            .unwrap_or_else(|error| panic!("{target}: {error}"));
        rounds += 1;
    }
    println!("{target}: {} inputs in {seconds} s", rounds * CASES);
}

fn fastrand_seed() -> [u8; 32] {
    std::array::from_fn(|_| fastrand::u8(..))
}

/// Writes a failing input down, and says where; while it is being made smaller, the last one stays.
fn kept(target: &str, input: &[u8]) -> String {
    let folder = root().join("target/fuzz");
    let path = folder.join(format!("{target}.failed"));
    match fs::create_dir_all(&folder).and_then(|()| fs::write(&path, input)) {
        Ok(()) => format!("the input is in {}", path.display()),
        Err(error) => format!("the input is {input:?}; it could not be written down: {error}"),
    }
}

/// Names and contents, in the order of the names.
fn corpus(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut corpus: Vec<(String, Vec<u8>)> = entries
        .map(|entry| {
            let entry = entry.unwrap();
            (entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path()).unwrap())
        })
        .collect();
    corpus.sort();
    corpus
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

#[test]
fn urls_are_understood_as_they_are_shown_or_refused_without_their_credentials() {
    drive("url", super::url, ALLOCATED);
}

#[test]
fn options_are_accepted_within_their_bounds_and_refused_by_name() {
    drive("option", super::option, ALLOCATED);
}

#[test]
fn any_answer_of_a_server_is_understood_or_an_error_that_can_be_told() {
    drive("reply", super::reply, ALLOCATED + RESERVED);
}

#[test]
fn a_waiter_keeps_its_bounds_whatever_it_is_answered() {
    drive("wait", super::wait, ALLOCATED + RESERVED);
}

#[test]
fn keys_of_two_names_never_meet_and_those_of_one_share_a_slot() {
    drive("key", super::key, ALLOCATED);
}
