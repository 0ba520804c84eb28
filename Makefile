# `make` alone lists the targets. Everything here also works by hand: CONTRIBUTING.md names the commands.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

# One feature set for lint and test, so that each dependency is built once.
FEATURES := --all-features

# Tests start servers of their own and measure time: more of them at once than cores blurs the measurement.
TEST_THREADS ?= 2

# How long `make chaos` lasts, and its seed: a random one unless it is told.
MINUTES ?= 2
SEED ?=

# How long `make fuzz` lasts.
SECONDS ?= 60

# Of the mutations, those with this in their names.
ONLY ?=

# Passed on to the programs and to pytest, for `make fuzz` names of targets: make bench ARGS="--only pair"
ARGS ?=

step = @printf '\n==> %s\n'

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: setup
setup: ## Install what the tests need: servers, and Python environments
	@scripts/setup.sh

.PHONY: demo
demo: ## Run the demo against REDIS_URL, a server on PATH, or one that is fetched for it
	@scripts/setup.sh demo
	@test -x "$${CARGO_TARGET_DIR:-target}/release/demo" || echo 'demo: building, which takes some minutes the first time'
	@cargo run --release -q -p redlatch-tests --bin demo -- $(ARGS)

.PHONY: test
test: setup ## Run every check that a change must pass
	$(step) 'format'
	cargo fmt --all --check
	$(step) 'lint'
	cargo clippy --workspace --all-targets $(FEATURES) -- -D warnings
	$(step) 'documentation'
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps $(FEATURES)
	$(step) 'Python: wheel and types'
	scripts/python.sh install
	scripts/python.sh types
	$(step) 'unit, integration and documentation tests'
	cargo test --workspace $(FEATURES) -- --test-threads=$(TEST_THREADS)
	$(step) 'time arithmetic without debug assertions'
	cargo test --release -p redlatch --lib lease
	$(step) 'interleavings of threads'
	scripts/interleavings.sh
	$(step) 'demo'
	cargo run --release -q -p redlatch-tests --bin demo -- --quick
	$(step) 'Python: tests on each interpreter'
	TEST_THREADS=$(TEST_THREADS) scripts/python.sh test
	@printf '\nmake test: every step passed\n'

.PHONY: wheel
wheel: setup ## Build the Python wheel into target/wheels
	scripts/python.sh wheel

.PHONY: test-py
test-py: setup ## Check the Python package alone: PYTHONS="3.11" on one interpreter, ARGS="-k fork" some tests
	scripts/python.sh wheel
	scripts/python.sh types
	TEST_THREADS=$(TEST_THREADS) scripts/python.sh test $(ARGS)

.PHONY: bench
bench: setup ## Run the benchmarks: ARGS="--only pair" one section, ARGS="--report-only" whatever the values are
	@scripts/setup.sh bench
	scripts/python.sh install
	cargo run --release -p redlatch-tests --bin bench -- $(ARGS)

.PHONY: bench-quick
bench-quick: override ARGS += --quick
bench-quick: bench ## The same within a minute, less exactly

.PHONY: soak
soak: setup ## Kill and stop processes that share a lock, for ARGS="--seconds 60"
	cargo run --release -p redlatch-tests --bin soak -- $(ARGS)

.PHONY: chaos
chaos: setup ## Processes in three languages, while server, network and processes fail: MINUTES=2 SEED=
	scripts/python.sh install
	cargo run --release -p redlatch-tests --bin chaos -- --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)

.PHONY: fuzz
fuzz: ## Give the parsers inputs that nobody thought of, for SECONDS=60; ARGS="url reply" some targets
	@SECONDS_IN_ALL=$(SECONDS) scripts/fuzz.sh $(ARGS)

.PHONY: mutations
mutations: setup ## Take each defence out in turn and see its test fail: ONLY=part,of,names
	cargo run -q -p redlatch-tests --bin mutations -- $(if $(ONLY),--only $(ONLY)) $(ARGS)

.PHONY: fmt
fmt: ## Format the code
	cargo fmt --all

.PHONY: lint
lint: ## Check format and lints
	cargo fmt --all --check
	cargo clippy --workspace --all-targets $(FEATURES) -- -D warnings

.PHONY: doc
doc: ## Build the documentation; any warning is an error
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps $(FEATURES)

.PHONY: header
header: ## Write include/redlatch.h anew from ffi-c/
	REDLATCH_BLESS=1 cargo test -p redlatch-ffi --test header

.PHONY: deny
deny: ## Check licences, sources and advisories of the dependencies, when cargo-deny is there
	@if command -v cargo-deny >/dev/null; then cargo deny check; else echo 'deny: skipped, cargo-deny is not installed'; fi

# Exported for the script, whether they come from make's command line or the environment.
export PREFIX LIBDIR DESTDIR

.PHONY: install
install: ## Install libredlatch, its headers, redlatch.pc and CMake files: PREFIX=/usr/local, DESTDIR=
	@scripts/install.sh install

.PHONY: uninstall
uninstall: ## Remove what `make install` with the same PREFIX put there
	@scripts/install.sh uninstall

.PHONY: clean
clean: ## Remove target/, with the venv of servers in it
	cargo clean
