//! libredlatch, and programs in C and C++ that are compiled against it.
//!
//! | need | use |
//! |---|---|
//! | the library as its users build it | [`Build`], [`library`] |
//! | a program of `tests/c` | [`Recipe`], [`Program`] |
//! | a compiler, or another tool, that may be missing | [`has_tool`], [`run_tool`] |

mod library;
mod program;

pub use library::{Build, has_tool, library, run_tool, scratch, workspace};
pub use program::{Program, Recipe, finish};
