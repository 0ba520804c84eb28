#!/usr/bin/env bash
# Tests that go through interleavings of threads: scripts/interleavings.sh [FILTER], all of them without one.
#
# The crate alone is compiled with `--cfg shuttle`: dependencies are those of the other tests, built once for both.
set -euo pipefail

case "${1:-}" in
    # Cargo calls this script in place of rustc.
    */rustc | rustc) exec "$@" --cfg shuttle ;;
esac
cd "$(dirname "$0")/.."
RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/interleavings.sh cargo test -p redlatch --all-features --lib "interleavings${1:+::$1}"
