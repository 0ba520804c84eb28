//! The page of benchmarks: every figure on it is from the run that is kept beside it.

use std::fs;

use redlatch_tests::bench::Report;
use redlatch_tests::c::workspace;

#[test]
fn the_page_of_benchmarks_shows_another_run_than_the_one_that_is_kept() {
    let docs = workspace().join("docs");
    let read = |path: &str| fs::read_to_string(docs.join(path)).unwrap_or_else(|error| panic!("docs/{path}: {error}"));
    let run = Report::read(&read("benchmarks/run.json")).expect("it was written by a run");
    let again = "`make bench ARGS=--redraw` writes it anew from the run that is kept";
    assert!(run.page().expect("the run has every figure") == read("benchmarks.md"), "docs/benchmarks.md: {again}");
    for (name, svg) in run.figures() {
        assert!(svg == read(&format!("benchmarks/{name}")), "docs/benchmarks/{name}: {again}");
    }
}
