//! The mutations of `tests/mutations`, which `make mutations` runs: each applies to the sources as they are.

use std::fs;

use redlatch_tests::c::workspace;
use redlatch_tests::mutations::Mutation;

#[test]
fn every_mutation_applies_and_names_a_test_that_exists() {
    let mutations = Mutation::all().unwrap_or_else(|error| panic!("{error}"));
    assert!(mutations.len() >= 40, "{}", mutations.len());
    for Mutation { name, test, patch, .. } in mutations {
        let changed = patch.apply(workspace()).unwrap_or_else(|error| panic!("{name}: {error}"));
        for (path, text) in changed {
            assert_ne!(fs::read_to_string(workspace().join(&path)).unwrap(), text, "{name} changes nothing in {path}");
        }
        test.find().unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
