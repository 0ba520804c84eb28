#!/usr/bin/env bash
# The Python package: environments, wheels, tests.
#
#   scripts/python.sh setup          environments under target/py; does nothing where nothing is missing
#   scripts/python.sh wheel          wheels of this tree in target/wheels
#   scripts/python.sh test [ARG...]  installs the wheels and runs pytest with ARG on each interpreter
#   scripts/python.sh install        makes the wheels, and installs one where benchmark and chaos run look for it
#   scripts/python.sh types          checks the types of the package and its tests, and the stub against the extension
#
# Every CPython from 3.10 on that is found takes part: python3.X on PATH, and those of pyenv, also where its shims do
# not lead to them. PYTHONS="3.11 3.13t" leaves out all others; a t stands for a free-threaded build.
set -euo pipefail
cd "$(dirname "$0")/.."

envs=target/py
wheels=target/wheels
log=$envs/setup.log
requirements=py/requirements
# How many processes share the tests of one interpreter.
workers=${TEST_THREADS:-2}

say() { printf 'python: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
last_error() { printf '%s (log: %s)' "$(grep -i '^error' "$log" | tail -n 1)" "$log"; }
# left_out WHAT: names what cannot take part; in CI nothing may be left out.
left_out() {
    say "$*"
    [ "${CI:-}" != true ] || die 'CI needs every part'
}

probe='
import ensurepip, sys, sysconfig, venv
if sys.implementation.name != "cpython" or sys.version_info < (3, 10):
    sys.exit(1)
free_threaded = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
print("{}.{}{} {}".format(*sys.version_info[:2], free_threaded, sys.executable))
'

# One line "3.11 /path/of/python3.11" for each version, the oldest first.
interpreters() {
    local minor python
    {
        for minor in {10..19}; do printf '%s\n' "python3.$minor" "python3.${minor}t"; done
        printf '%s\n' python3 "${PYENV_ROOT:-${HOME:-}/.pyenv}"/versions/*/bin/python3
    } | while read -r python; do
        "$python" -c "$probe" 2>/dev/null || true
    done | sort -V -s -u -k 1,1 | while read -r tag python; do
        [ -z "${PYTHONS:-}" ] || [[ " $PYTHONS " == *" $tag "* ]] || continue
        printf '%s %s\n' "$tag" "$python"
    done
}

pip_install() {
    local env=$1
    shift
    "$env/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --only-binary :all: "$@" \
        >>"$log" 2>&1
}

# ensure_env NAME PYTHON REQUIREMENT...: a fresh environment whenever the interpreter or a pin has changed.
ensure_env() {
    local env=$envs/$1 python=$2 wanted
    shift 2
    wanted=$("$python" -VV; cat "${@/#/$requirements/}")
    [ "$(cat "$env/made-of" 2>/dev/null)" != "$wanted" ] || return 0
    say "making $env"
    : >"$log"
    "$python" -m venv --clear "$env" >>"$log" 2>&1 || { say "cannot make $env: $(last_error)"; return 1; }
    local file package
    for file in "$@"; do
        pip_install "$env" -r "$requirements/$file" && continue
        [[ $file = frameworks.txt || $file = bench.txt ]] ||
            { say "cannot install $file into $env: $(last_error)"; return 1; }
        # Each by itself: one that has no wheel for this interpreter does not keep out the others.
        grep -v '^#' "$requirements/$file" | while read -r package; do
            pip_install "$env" "$package" || say "cannot install $package into $env: what needs it is left out there"
        done
    done
    printf '%s\n' "$wanted" >"$env/made-of"
}

# The interpreter that also checks types.
main_of() { { grep -E '^3\.11( |$)' <<<"$1" || head -n 1 <<<"$1"; } | cut -d ' ' -f 1; }

setup() {
    local found main tag python files
    found=$(interpreters)
    if [ -z "$found" ]; then
        left_out 'no CPython 3.10 or later that can make a venv: the Python package is not tested'
        return 0
    fi
    main=$(main_of "$found")
    mkdir -p "$envs"
    while read -r tag python; do
        files=(test.txt frameworks.txt)
        [ "$tag" != "$main" ] || files+=(lint.txt bench.txt)
        ensure_env "venv-$tag" "$python" "${files[@]}" || left_out "CPython $tag is left out"
        [ "$tag" != "$main" ] || ensure_env build "$python" build.txt || die 'no maturin, so no wheel'
    done <<<"$found"
}

# usable: tags of the interpreters whose environments are complete.
usable() {
    local tag python
    interpreters | while read -r tag python; do
        [ ! -e "$envs/venv-$tag/made-of" ] || echo "$tag"
    done
}

wheel() {
    local tags tag
    tags=$(usable)
    [ -n "$tags" ] || { left_out 'no wheel: no environment to build it in'; return 0; }
    mkdir -p "$wheels"
    rm -f "$wheels"/redlatch-*.whl
    build_wheel "$envs/build/bin/python"
    # The stable ABI does not cover free-threaded builds before 3.15: each gets a wheel of its own.
    if grep -q t <<<"$tags"; then
        for tag in $(grep t <<<"$tags"); do build_wheel "$envs/venv-$tag/bin/python" --no-default-features; done
    else
        say 'no free-threaded CPython was found: nothing is built for one, nothing tested on one'
    fi
}

build_wheel() {
    "$envs/build/bin/maturin" build --release --quiet --manifest-path py/Cargo.toml --out "$wheels" --interpreter "$@"
}

install_wheel() {
    local env=$envs/venv-$1 pattern='redlatch-*-abi3-*.whl'
    [[ $1 != *t ]] || pattern="redlatch-*-cp${1/./}-*.whl"
    "$env/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps --force-reinstall \
        "$wheels"/$pattern
}

run_tests() {
    local tags tag failed=
    tags=$(usable)
    [ -n "$tags" ] || { left_out 'no environment to test in'; return 0; }
    for tag in $tags; do
        printf '\n--> CPython %s\n' "$tag"
        install_wheel "$tag"
        # Not `python -m pytest`, which would put the current folder on the path.
        "$envs/venv-$tag/bin/pytest" -c py/pyproject.toml -o "cache_dir=$PWD/$envs/pytest-$tag" -n "$workers" \
            "$@" py/tests || failed+=" $tag"
    done
    [ -z "$failed" ] || die "tests failed on CPython$failed"
}

types() {
    local main env
    main=$(main_of "$(usable)")
    [ -n "$main" ] || { left_out 'no environment to check types in'; return 0; }
    env=$envs/venv-$main
    install_wheel "$main"
    MYPYPATH=py/python "$env/bin/mypy" --config-file py/pyproject.toml --cache-dir "$envs/mypy" -p redlatch
    MYPYPATH=py/python:py/tests "$env/bin/mypy" --config-file py/pyproject.toml --cache-dir "$envs/mypy" \
        py/tests/harness py/tests/programs py/tests/*.py
    # The one module whose types stand beside it. PyO3 writes its __all__.
    "$env/bin/python" -m mypy.stubtest --mypy-config-file py/pyproject.toml \
        --allowlist <(echo 'redlatch\._native\.__all__') redlatch._native
}

# The wheel of this tree, in the environment that the benchmark and the chaos run use.
install() {
    local main
    main=$(main_of "$(usable)")
    [ -n "$main" ] || { left_out 'no environment to install the wheel in'; return 0; }
    wheel
    install_wheel "$main"
}

case "${1:-}" in
    install) install ;;
    setup) setup ;;
    wheel) wheel ;;
    test) shift; run_tests "$@" ;;
    types) types ;;
    *) die "unknown argument '${1:-}': setup, wheel, install, test or types" ;;
esac
