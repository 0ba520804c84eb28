//! URLs: understood as they are shown, or refused without their credentials.

use redis::ConnectionAddr;

use crate::error::Error;
use crate::transport::{Endpoint, Target};

use super::{PLACEHOLDER, SECRET, assert_hidden};

/// The input is a URL, in which `^` stands for a password. Elsewhere than where a URL has its credentials it is left out.
pub fn url(data: &[u8]) {
    // A fuzzer comes to know the secret, and puts it where it is none.
    let text = String::from_utf8_lossy(data).replace(SECRET, "");
    let url = with_secret(&text);
    match Target::parse(&url) {
        Ok(target) => {
            assert_hidden(&format!("{target:?}"));
            understood(&url, target);
        }
        Err(error) => {
            let shown = error.to_string();
            assert_hidden(&format!("{error:?} {shown}"));
            assert!(!shown.contains(char::is_control), "{shown:?}");
            assert!(matches!(error, Error::Config { option: "url", .. }) && shown.starts_with("url = "), "{shown}");
        }
    }
}

/// Puts the secret where credentials are: before the last `@`, and behind the first `?`.
fn with_secret(text: &str) -> String {
    let scheme = text.find("://").filter(|at| !text[..*at].contains(['@', '?', ':', '/', ' ']));
    let start = scheme.map_or(0, |at| at + 3);
    let at = text.rfind('@').unwrap_or(0);
    let query = text.find('?').unwrap_or(text.len());
    // A path and a name in this process are none.
    let bare = text.replace(PLACEHOLDER, "");
    let has_login = !bare.starts_with("unix:") && !bare.starts_with("memory:");
    let has_query = !bare.starts_with("memory:");
    let mut url = String::new();
    for (index, character) in text.char_indices() {
        let secret = (has_login && index >= start && index < at) || (has_query && index > query);
        match character {
            PLACEHOLDER if secret => url.push_str(SECRET),
            PLACEHOLDER => {}
            other => url.push(other),
        }
    }
    url
}

fn understood(url: &str, target: Target) {
    assert!(!url.contains('#') || matches!(target, Target::Memory(_)), "the fragment of {url} is not read");
    match &target {
        Target::Server(endpoint) => {
            if !url.starts_with("unix:") {
                assert!(!url.contains('?'), "the query of {url} is not read");
                named(url, std::slice::from_ref(endpoint), 6_379);
            }
            same_again(endpoint.as_str(), endpoint);
        }
        Target::Sentinel(ring) => {
            named(url, &ring.sentinels, 26_379);
            let again = Target::parse(ring.as_str()).expect("what is shown is a URL");
            let Target::Sentinel(other) = again else { panic!("{other:?}", other = again) };
            assert_eq!((other.as_str(), &other.service), (ring.as_str(), &ring.service), "of {url}");
            assert_eq!(addresses(&other.sentinels), addresses(&ring.sentinels), "of {url}");
            assert_eq!(other.primary.login.db(), ring.primary.login.db(), "of {url}");
        }
        Target::Cluster(seeds) => {
            named(url, &seeds.nodes, 6_379);
            let again = Target::parse(seeds.as_str()).expect("what is shown is a URL");
            let Target::Cluster(other) = again else { panic!("{other:?}", other = again) };
            assert_eq!(other.as_str(), seeds.as_str(), "of {url}");
            assert_eq!(addresses(&other.nodes), addresses(&seeds.nodes), "of {url}");
            assert!(seeds.nodes.iter().all(|node| node.login.db() == 0), "of {url}");
        }
        Target::Memory(name) => assert_ne!(name.as_deref(), Some(""), "of {url}"),
    }
}

/// What is shown of a server leads to the same one.
fn same_again(shown: &str, endpoint: &Endpoint) {
    assert!((0..=1_000_000).contains(&endpoint.login.db()), "{shown}");
    let again = Target::parse(shown).unwrap_or_else(|error| panic!("{shown:?} is shown and refused: {error}"));
    let Target::Server(other) = again else { panic!("{shown:?} becomes {other:?}", other = again) };
    assert_eq!((other.as_str(), other.login.db()), (shown, endpoint.login.db()));
    assert_eq!(other.address, endpoint.address, "of {shown}");
}

fn addresses(endpoints: &[Endpoint]) -> Vec<&ConnectionAddr> {
    endpoints.iter().map(|endpoint| &endpoint.address).collect()
}

/// The servers are those that the URL names, in its order and with its ports.
fn named(url: &str, endpoints: &[Endpoint], default_port: u16) {
    let (_, rest) = url.split_once("://").expect("a scheme");
    let authority = rest.split(['/', '?']).next().expect("a first part");
    let hosts = authority.rsplit('@').next().expect("a last part");
    let hosts: Vec<&str> = hosts.split(',').collect();
    assert_eq!(hosts.len(), endpoints.len(), "servers of {url}");
    for (host, endpoint) in hosts.into_iter().zip(endpoints) {
        let simple = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-' | ':');
        if !host.chars().all(simple) || !host.starts_with(|c: char| c.is_ascii_lowercase()) {
            continue;
        }
        let (name, port) = host.split_once(':').unwrap_or((host, ""));
        let (of_host, of_port) = match &endpoint.address {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => (host, *port),
            other => panic!("{other:?} of {url}"),
        };
        let port = if port.is_empty() { default_port } else { port.parse().expect("a port") };
        assert_eq!((of_host.as_str(), of_port), (name, port), "of {url}");
    }
}
