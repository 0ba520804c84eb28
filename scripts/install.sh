#!/usr/bin/env bash
# Installs the C library, its headers, and what pkg-config and CMake look for; or removes them.
#
#   scripts/install.sh install      builds the release first
#   scripts/install.sh uninstall
#
# Variables:
#   PREFIX   where it goes, an absolute path; /usr/local
#   LIBDIR   the directory of libraries below it; lib
#   DESTDIR  what stands before PREFIX while a package is made; nothing
set -euo pipefail
cd "$(dirname "$0")/.."

prefix=${PREFIX:-/usr/local}
libdir=${LIBDIR:-lib}
root=${DESTDIR:-}$prefix
target=${CARGO_TARGET_DIR:-target}

die() { printf 'install: %s\n' "$*" >&2; exit 1; }

[ "$(uname -s)" = Linux ] || die 'only Linux is supported'
case $prefix in /*) ;; *) die "PREFIX is '$prefix': an absolute path is expected" ;; esac
case /$libdir/ in *//* | */../* | */./*) die "LIBDIR is '$libdir': a path below PREFIX is expected" ;; esac

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
soname=$(sed -n 's/.*-soname,\(libredlatch\.so\.[0-9]*\).*/\1/p' ffi-c/build.rs)
[ -n "$version" ] && [ -n "$soname" ] || die 'cannot tell the version or the SONAME'
shared=libredlatch.so.$version

# What rustc names for a static library of Rust's standard library.
private='-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc'

files=(
    include/redlatch.h
    include/redlatch.hpp
    "$libdir/$shared"
    "$libdir/$soname"
    "$libdir/libredlatch.so"
    "$libdir/libredlatch.a"
    "$libdir/pkgconfig/redlatch.pc"
    "$libdir/cmake/redlatch/redlatchConfig.cmake"
    "$libdir/cmake/redlatch/redlatchConfigVersion.cmake"
)

# fill TEMPLATE FILE: writes one with its @WORDS@ replaced.
fill() {
    local up
    # From the directory of redlatch.pc to PREFIX: one step up for each directory between.
    up=$(printf '%s/pkgconfig' "$libdir" | sed 's|[^/][^/]*|..|g')
    sed -e "s|@UP@|$up|g" -e "s|@LIBDIR@|$libdir|g" -e "s|@VERSION@|$version|g" -e "s|@SONAME@|$soname|g" \
        -e "s|@SHARED@|$shared|g" -e "s|@PRIVATE@|$private|g" -e "s|@PRIVATE_LIST@|${private// /;}|g" \
        -e "s|@MAJOR@|$(cut -d . -f 1 <<<"$version")|g" -e "s|@MINOR@|$(cut -d . -f 2 <<<"$version")|g" \
        -e "s|@POINTER@|$(($(getconf LONG_BIT) / 8))|g" "packaging/$1" >"$root/$2.new"
    chmod 644 "$root/$2.new"
    mv -f "$root/$2.new" "$root/$2"
}

do_install() {
    cargo build --release --locked -p redlatch-ffi
    install -d "$root/include" "$root/$libdir/pkgconfig" "$root/$libdir/cmake/redlatch"
    install -m 644 include/redlatch.h include/redlatch.hpp "$root/include"
    install -m 755 "$target/release/libredlatch.so" "$root/$libdir/$shared"
    install -m 644 "$target/release/libredlatch.a" "$root/$libdir"
    ln -sf "$shared" "$root/$libdir/$soname"
    ln -sf "$soname" "$root/$libdir/libredlatch.so"
    fill redlatch.pc.in "$libdir/pkgconfig/redlatch.pc"
    fill redlatchConfig.cmake.in "$libdir/cmake/redlatch/redlatchConfig.cmake"
    fill redlatchConfigVersion.cmake.in "$libdir/cmake/redlatch/redlatchConfigVersion.cmake"
    printf 'installed redlatch %s into %s\n' "$version" "$root"
}

do_uninstall() {
    (cd "$root" 2>/dev/null && rm -f -- "${files[@]}" && { rmdir "$libdir/cmake/redlatch" 2>/dev/null || true; }) ||
        die "cannot remove redlatch from $root"
    printf 'removed redlatch from %s\n' "$root"
}

case ${1:-} in
    install) do_install ;;
    uninstall) do_uninstall ;;
    *) die "'${1:-}': install or uninstall is expected" ;;
esac
