//! `include/redlatch.h` is what cbindgen makes of the sources.

use std::path::{Path, PathBuf};
use std::{env, fs};

use cbindgen::{Builder, Config, DocumentationStyle, FunctionConfig, Language, Style};

/// In the order in which the header shows them. What is not here is not for C.
const SOURCES: [&str; 12] = [
    "status",
    "wait",
    "options",
    "callback",
    "client",
    "check",
    "lock",
    "lease",
    "cancel",
    "text",
    "last_error",
    "log",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn definitions() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let (major, rest) = version.split_once('.').expect("three numbers");
    let (minor, patch) = rest.split_once('.').expect("three numbers");
    format!(
        "\n/**\n * The version of this header.\n */\n\
         #define REDLATCH_VERSION \"{version}\"\n\
         #define REDLATCH_VERSION_MAJOR {major}\n\
         #define REDLATCH_VERSION_MINOR {minor}\n\
         #define REDLATCH_VERSION_PATCH {patch}\n\n\
         /**\n * In place of the length of a text: as far as its NUL.\n */\n\
         #define REDLATCH_NUL_TERMINATED ((size_t)-1)\n\n\
         /**\n * The compiler warns where the status is not looked at.\n */\n\
         #if defined(__GNUC__) || defined(__clang__)\n\
         #define REDLATCH_MUST_USE __attribute__((warn_unused_result))\n\
         #else\n\
         #define REDLATCH_MUST_USE\n\
         #endif"
    )
}

fn generated() -> String {
    let mut config = Config {
        language: Language::C,
        cpp_compat: true,
        include_guard: Some("REDLATCH_H".to_owned()),
        header: Some(fs::read_to_string(root().join("manual.txt")).expect("the manual is there").trim_end().to_owned()),
        autogen_warning: Some("/* Generated from ffi-c/ by `make header`: changes go there. */".to_owned()),
        no_includes: true,
        sys_includes: vec!["stddef.h".to_owned(), "stdint.h".to_owned()],
        after_includes: Some(definitions()),
        documentation_style: DocumentationStyle::Doxy,
        style: Style::Both,
        usize_is_size_t: true,
        line_length: 120,
        function: FunctionConfig { must_use: Some("REDLATCH_MUST_USE".to_owned()), ..FunctionConfig::default() },
        ..Config::default()
    };
    config.export.rename = [
        ("Client", "redlatch_client"),
        ("Lock", "redlatch_lock"),
        ("Lease", "redlatch_lease"),
        ("Cancel", "redlatch_cancel"),
        ("ClientOptions", "redlatch_client_options"),
        ("LockOptions", "redlatch_lock_options"),
        ("OnLost", "redlatch_on_lost"),
        ("OnFinding", "redlatch_on_finding"),
        ("Destroy", "redlatch_destroy"),
        ("LogCallback", "redlatch_log_callback"),
    ]
    .into_iter()
    .map(|(rust, c)| (rust.to_owned(), c.to_owned()))
    .collect();
    let mut builder = Builder::new().with_config(config);
    for source in SOURCES {
        builder = builder.with_src(root().join("src").join(source).with_extension("rs"));
    }
    let mut header = Vec::new();
    builder.generate().expect("cbindgen understands the sources").write(&mut header);
    let header = String::from_utf8(header).expect("the header is text");
    header.lines().flat_map(|line| [in_parentheses(line), "\n".to_owned()]).collect()
}

/// A negative number as a macro that means the same in every expression.
fn in_parentheses(line: &str) -> String {
    match line.rsplit_once(' ') {
        Some((name, number)) if line.starts_with("#define ") && number.starts_with('-') => format!("{name} ({number})"),
        _ => line.to_owned(),
    }
}

#[test]
fn the_header_is_what_the_sources_say() {
    let path = root().parent().expect("the workspace").join("include/redlatch.h");
    let wanted = generated();
    if env::var_os("REDLATCH_BLESS").is_some_and(|value| value == "1") {
        fs::write(&path, &wanted).expect("the header can be written");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    let first = found.lines().zip(wanted.lines()).position(|(found, wanted)| found != wanted);
    assert!(
        found == wanted,
        "include/redlatch.h is out of date from line {}: `make header` writes it",
        first.unwrap_or_else(|| found.lines().count().min(wanted.lines().count())) + 1
    );
}
