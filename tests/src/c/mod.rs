//! libredlatch, and programs in C and C++ that are compiled against it.
//!
//! | need | use |
//! |---|---|
//! | the library as its users build it | [`Build`], [`library`] |
//! | a program of `tests/c` or `tests/cpp` | [`Recipe`], [`Program`] |
//! | valgrind and sanitizers | [`under_valgrind`], [`under_sanitizers`], [`assert_clean`], [`assert_found`] |
//! | a compiler, or another tool, that may be missing | [`has_tool`], [`run_tool`] |

mod checkers;
mod library;
mod program;

pub use checkers::{Leaks, SANITIZED, assert_clean, assert_found, under_sanitizers, under_valgrind};
pub use library::{Build, has_tool, library, run_tool, scratch, workspace};
pub use program::{Program, Recipe, finish, finish_within};
