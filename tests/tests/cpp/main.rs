//! The C++ header as C++ programs see it, the installed package, and the examples.

#![allow(clippy::disallowed_methods, reason = "tests measure time by the machine's clock")]

mod checkers;
mod documents;
mod faults;
mod interop;
mod packaging;
mod scenarios;

/// The units of the program that runs the scenarios: each includes the header.
const UNITS: [&str; 9] = [
    "cpp/main.cpp",
    "cpp/mutex.cpp",
    "cpp/lease.cpp",
    "cpp/waits.cpp",
    "cpp/errors.cpp",
    "cpp/options.cpp",
    "cpp/callbacks.cpp",
    "cpp/lifetimes.cpp",
    "cpp/check.cpp",
];
