#!/usr/bin/env bash
# Fuzzing: each target of core/src/fuzzing for an equal part of SECONDS (60). ARGS: names of targets, all by default.
#
# With a nightly compiler and cargo-fuzz by libFuzzer, which learns from the code that an input reaches; else by mutations of
# the corpus alone, on the stable compiler. What fails is named, with the file that has its input.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'fuzz: %s\n' "$*"; }

seconds=${SECONDS_IN_ALL:-60}
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(url option reply wait key)
for target in "${targets[@]}"; do
    [ -d "tests/fuzz/corpus/$target" ] || { say "no target is named $target" >&2; exit 2; }
done
share=$((seconds / ${#targets[@]}))
[ "$share" -gt 0 ] || share=1

without_libfuzzer() {
    say "$1, so the inputs are mutations of the corpus alone"
    export REDLATCH_FUZZ_SECONDS=$share REDLATCH_FUZZ_TARGETS="${targets[*]}"
    cargo test -p redlatch --all-features --lib fuzzing:: -- --nocapture --test-threads=1
    exit
}

toolchain=$(rustup toolchain list 2>/dev/null | grep -o '^nightly[^ ]*' | head -n 1) || true
[ -n "$toolchain" ] || without_libfuzzer 'libFuzzer takes a nightly compiler (rustup toolchain install nightly)'
command -v cargo-fuzz >/dev/null || without_libfuzzer 'cargo-fuzz is not installed (cargo install cargo-fuzz)'

# The versions of the workspace, and what libFuzzer needs besides.
cp Cargo.lock tests/fuzz/Cargo.lock
found=target/fuzz
for target in "${targets[@]}"; do
    say "$target for $share s"
    mkdir -p "$found/$target"
    # New inputs go to the first folder, so that the kept ones stay as they are.
    RUSTUP_TOOLCHAIN=$toolchain cargo fuzz run --fuzz-dir tests/fuzz --target-dir "$found/build" "$target" \
        "$found/$target" "tests/fuzz/corpus/$target" -- -max_total_time="$share" -max_len=8192 -rss_limit_mb=1024 \
        -malloc_limit_mb=64 -timeout=10 -print_final_stats=1 -artifact_prefix="$PWD/$found/$target-"
done
say "every target held; inputs that reached something new are in $found"
