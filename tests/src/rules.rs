//! The access rules of docs/operations.md.

const DOCS: &str = include_str!("../../docs/operations.md");

/// Name of the user in the docs.
pub const DOCUMENTED_USER: &str = "redlatch";
/// Its password there.
pub const DOCUMENTED_PASSWORD: &str = "PASSWORD";

/// The rules that follow `ACL SETUSER redlatch` in the docs, without those that some deployments need besides.
pub fn documented_rules() -> Vec<&'static str> {
    let (_, rest) = DOCS.split_once("ACL SETUSER redlatch").expect("the docs have the rules");
    let (rules, _) = rest.split_once("```").expect("the rules stand in a block of code");
    rules.split_whitespace().filter(|word| *word != "\\").map(|word| word.trim_matches('\'')).collect()
}

/// The line of a user for [`ServerBuilder::user`](crate::ServerBuilder::user): the documented rules, and others that the docs
/// name, by words; panics when they do not name one of these.
pub fn documented_user(besides: &str) -> String {
    assert!(besides.split_whitespace().all(|rule| DOCS.contains(rule)), "the docs name {besides}");
    let rules: Vec<&str> = documented_rules().into_iter().chain(besides.split_whitespace()).collect();
    format!("{DOCUMENTED_USER} reset {}", rules.join(" "))
}
