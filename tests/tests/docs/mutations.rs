//! The mutations of `tests/mutations`, which `make mutations` runs: each applies to the sources as they are.

use redlatch_tests::c::workspace;
use redlatch_tests::mutations::Mutation;

#[test]
fn every_mutation_applies_and_names_a_test_that_exists() {
    let mutations = Mutation::all().unwrap_or_else(|error| panic!("{error}"));
    assert!(mutations.len() >= 40, "{}", mutations.len());
    let problems = mutations.iter().filter_map(|mutation| {
        let problem = mutation.patch.apply(workspace()).err().or_else(|| mutation.test.find().err())?;
        Some(format!("{}: {problem}", mutation.name))
    });
    let problems: Vec<String> = problems.collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
