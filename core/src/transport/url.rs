//! From a URL to where its server is.

use std::fmt;
use std::path::Path;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};

use crate::error::{Error, Result};

use super::hosts::{Ring, Seeds};
use super::shown::hide_credentials;

/// What a URL names.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// A Redis or Valkey server.
    Server(Box<Endpoint>),
    /// The primary of a service that sentinels watch.
    Sentinel(Box<Ring>),
    /// A cluster, of which these nodes are known.
    Cluster(Box<Seeds>),
    /// A store in this process; without a name it is the client's own.
    Memory(Option<String>),
}

const EXPECTED: &str = "a URL like redis://[user:password@]host[:port][/db], rediss://…, \
                        unix:///path[?db=N&user=…&pass=…], \
                        redis+sentinel://[user:password@]host[:port][,host[:port]…]/service[/db], \
                        redis+cluster://[user:password@]host[:port][,host[:port]…], rediss+… for \
                        both over TLS, or memory://[name]; reserved characters in user and password percent-encoded";

impl Target {
    /// Understands `url`; an error shows it without credentials.
    pub(crate) fn parse(url: &str) -> Result<Target> {
        if let Some(name) = url.strip_prefix("memory://") {
            let name = name.trim_end_matches('/');
            return Ok(Target::Memory((!name.is_empty()).then(|| name.to_owned())));
        }
        let refuse = |why: &str| Error::config("url", hide_credentials(url), format!("{why}: {EXPECTED}"));
        check_characters(url).map_err(refuse)?;
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
        if scheme.starts_with("rediss") && cfg!(not(feature = "tls")) {
            return Err(refuse("rediss:// needs redlatch built with its `tls` feature"));
        }
        match scheme {
            "redis" | "rediss" if has_query(url) => {
                return Err(refuse("it takes no query: the database is its path, and a ? elsewhere is written %3F"));
            }
            "redis" | "rediss" if has_several_hosts(url) => {
                return Err(refuse("several hosts take redis+sentinel:// or redis+cluster://"));
            }
            "redis" | "rediss" => {}
            "unix" | "redis+unix" => check_socket(url).map_err(|why| refuse(&why))?,
            "redis+sentinel" | "rediss+sentinel" => {
                return Ring::parse(url).map(|ring| Target::Sentinel(Box::new(ring))).map_err(|why| refuse(&why));
            }
            "redis+cluster" | "rediss+cluster" => {
                return Seeds::parse(url).map(|seeds| Target::Cluster(Box::new(seeds))).map_err(|why| refuse(&why));
            }
            _ => return Err(refuse("unknown scheme")),
        }
        let info = url.into_connection_info().map_err(|error| refuse(&error.to_string()))?;
        let endpoint = Endpoint::new(info).map_err(|why| refuse(&why))?;
        Ok(Target::Server(Box::new(endpoint)))
    }

    /// Every server that it names.
    pub(super) fn endpoints(&mut self) -> Vec<&mut Endpoint> {
        match self {
            Target::Server(endpoint) => vec![endpoint.as_mut()],
            Target::Sentinel(ring) => ring.sentinels.iter_mut().chain([&mut ring.primary]).collect(),
            Target::Cluster(seeds) => seeds.nodes.iter_mut().collect(),
            Target::Memory(_) => Vec::new(),
        }
    }
}

/// One server: address and login. `Display` and `Debug` show no credentials.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) address: ConnectionAddr,
    pub(crate) login: RedisConnectionInfo,
    shown: String,
}

impl Endpoint {
    /// Whether a write to a connection of its that has ended raises SIGPIPE: over plain TCP std asks the kernel not to, over
    /// Unix sockets from Rust 1.90 on, and rustls writes in a way for which it cannot be asked.
    pub(super) fn writes_raise_sigpipe(&self) -> bool {
        matches!(self.address, ConnectionAddr::TcpTls { .. } | ConnectionAddr::Unix(_))
    }

    pub(super) fn new(info: ConnectionInfo) -> Result<Endpoint, String> {
        let address = info.addr().clone();
        let mut login = info.redis_settings().clone().set_lib_name("redlatch", env!("CARGO_PKG_VERSION"));
        if login.username().is_some() && login.password().is_none() {
            // It is that user who logs in, not the default one: a user without password takes any.
            login = login.set_password("");
        }
        #[cfg(unix)]
        if let ConnectionAddr::Unix(path) = &address {
            let refuse = |error| format!("{error}");
            std::os::unix::net::SocketAddr::from_pathname(path).map_err(refuse)?;
        }
        let db = login.db();
        if !(0..=1_000_000).contains(&db) {
            return Err(format!("{db} is no database number from 0 up"));
        }
        let shown = show(&address, db);
        Ok(Endpoint { address, login, shown })
    }

    /// The same login at another address.
    pub(crate) fn at(&self, host: &str, port: u16) -> Endpoint {
        let mut address = self.address.clone();
        if let ConnectionAddr::Tcp(host_of, port_of) | ConnectionAddr::TcpTls { host: host_of, port: port_of, .. } =
            &mut address
        {
            (*host_of, *port_of) = (host.to_owned(), port);
        }
        let shown = show(&address, self.login.db());
        Endpoint { address, login: self.login.clone(), shown }
    }

    /// The host, without brackets; empty for a Unix socket.
    pub(crate) fn host(&self) -> &str {
        match &self.address {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host,
            _ => "",
        }
    }

    /// Host and port.
    pub(super) fn authority(&self) -> &str {
        let (_, rest) = self.shown.split_once("://").unwrap_or_default();
        rest.split_once('/').map_or(rest, |(authority, _)| authority)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.shown
    }
}

fn show(address: &ConnectionAddr, db: i64) -> String {
    match address {
        ConnectionAddr::Tcp(host, port) => format!("redis://{}:{port}/{db}", bracketed(host)),
        ConnectionAddr::TcpTls { host, port, .. } => format!("rediss://{}:{port}/{db}", bracketed(host)),
        ConnectionAddr::Unix(path) => format!("unix://{}?db={db}", encoded(path)),
        _ => "server".to_owned(),
    }
}

/// The path with what would end it, or would end a line, percent-encoded.
fn encoded(path: &Path) -> String {
    let mut shown = String::new();
    for chunk in path.as_os_str().as_encoded_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            if matches!(c, '%' | '?' | '#') || c.is_control() {
                c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| shown.push_str(&format!("%{byte:02X}")));
            } else {
                shown.push(c);
            }
        }
        chunk.invalid().iter().for_each(|byte| shown.push_str(&format!("%{byte:02X}")));
    }
    shown
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Endpoint { address: _, login: _, shown } = self;
        f.debug_tuple("Endpoint").field(shown).finish()
    }
}

/// What the parsing of URLs would drop, or take for the end of something, instead of refusing it.
fn check_characters(url: &str) -> Result<(), &'static str> {
    if url.contains(char::is_control) {
        return Err("control characters, line ends among them, are percent-encoded");
    }
    if url.trim() != url {
        return Err("a space at its begin or end is written %20");
    }
    if url.contains('#') {
        return Err("nothing follows a #, certificates are always verified, and a # elsewhere is written %23");
    }
    Ok(())
}

/// Whether something follows a `?`.
fn has_query(url: &str) -> bool {
    url.split_once('?').is_some_and(|(_, query)| query.split('&').any(|pair| !pair.is_empty()))
}

/// Whether there is a comma between the login and the path.
fn has_several_hosts(url: &str) -> bool {
    let (_, rest) = url.split_once("://").unwrap_or_default();
    let authority = rest.split('/').next().unwrap_or_default();
    authority.rsplit('@').next().unwrap_or_default().contains(',')
}

/// The URL of a Unix socket.
fn check_socket(url: &str) -> Result<(), String> {
    let (_, rest) = url.split_once("://").unwrap_or_default();
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    if !path.starts_with('/') {
        return Err("the path begins with /, a login is given as ?user=…&pass=…".to_owned());
    }
    pairs(query, &["db", "user", "pass"]).map(drop)
}

/// The pairs of a query, of these keys and once at most each; their values as they are written.
pub(super) fn pairs<'a>(query: &'a str, known: &[&str]) -> Result<Vec<(&'a str, &'a str)>, String> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if !known.contains(&key) || pairs.iter().any(|(earlier, _)| *earlier == key) {
            return Err(format!("the query knows {}, each once", known.join(", ")));
        }
        // Some read a + as itself, others as a space.
        if value.contains(['+', '@', ':', '/', '?', '[', ']']) {
            return Err("reserved characters in the query are percent-encoded, + as %2B".to_owned());
        }
        pairs.push((key, value));
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str) -> String {
        match Target::parse(url).unwrap() {
            Target::Server(endpoint) => endpoint.as_str().to_owned(),
            Target::Sentinel(ring) => ring.as_str().to_owned(),
            Target::Cluster(seeds) => seeds.as_str().to_owned(),
            Target::Memory(name) => format!("memory {name:?}"),
        }
    }

    #[test]
    fn every_scheme_is_understood() {
        assert_eq!(shown("redis://localhost"), "redis://localhost:6379/0");
        assert_eq!(shown("redis://me:s3cret@[::1]:7000/3"), "redis://[::1]:7000/3");
        assert_eq!(shown("unix:///run/redis.sock?db=2"), "unix:///run/redis.sock?db=2");
        assert_eq!(shown("redis+unix:///run/a%20b?user=me&pass=s3cret"), "unix:///run/a b?db=0");
        assert_eq!(shown("unix:///run/a%20b%3Fc%25/%C3%A9%0A%FF?pass=x"), "unix:///run/a b%3Fc%25/é%0A%FF?db=0");
        assert_eq!(shown("redis://localhost/1?"), "redis://localhost:6379/1");
        assert_eq!(shown("unix:///run/redis.sock?db=2&"), "unix:///run/redis.sock?db=2");
        assert_eq!(shown("memory://"), "memory None");
        assert_eq!(shown("memory://shared"), "memory Some(\"shared\")");
    }

    #[test]
    fn refused_urls_name_the_option_and_hide_the_password() {
        for url in [
            "",
            "localhost:6379",
            "http://u:s3cret@x",
            "u:s3cret@h?x=redis://y",
            "h?password=s3cret&x=redis://y",
            "redis+sentinel://a/s?sentinel_password=p@s3cret",
            "redis://u:s3cret?x@h/0",
            "redis://u:s3cret@:99999/0",
            "redis://u:s3cret@h/db",
            "redis://u:s3cret@h/-1",
            "unix://?pass=s3cret&db=x",
            "redis://u:s3cret@h:port/1",
            "redis+sentinel://u:s3cret@a,b",
            "redis+sentinel://u:s3cret@a,,b/s",
            "redis+sentinel://u:s3cret@a:port/s",
            "redis+sentinel://u:s3cret@a/s/x",
            "redis+sentinel://u:s3cret@a/s/0/1",
            "redis+sentinel://u:s3cret@a/s%20s",
            "redis+sentinel://u:s3cret@a/s?password=s3cret",
            "redis+sentinel://u:s3cret@a/s?sentinel_password=s3cret@b",
            "redis+cluster://u:s3cret@a,b/1",
            "redis+cluster://u:s3cret@a,",
            "redis+cluster://u:s3cret@a?password=s3cret",
            // The parts that a password ends too early are no host, no database and no query.
            "redis://u:12/s3cret@h/0",
            "redis://u:12?s3cret@h/0",
            "redis://u:12#s3cret@h/0",
            "redis+cluster://u:12#s3cret@h",
            "redis+sentinel://u:12#s3cret@h/s",
            "redis+sentinel://h/s?sentinel_user=u&sentinel_password=12?s3cret",
            "redis://u:s3\tcret@h",
            "redis://u:s3cret@h/0\n",
            "unix:///run/redis.sock?pass=s3cret ",
            "unix:///run/redis.sock?pass=s3cret+",
            "unix:///run/redis.sock?pass=s3cret&pass=s3cret",
            "unix:///run/redis.sock?password=s3cret",
            "unix://u:s3cret@/run/redis.sock",
            "unix://relative/redis.sock?pass=s3cret",
            "redis://:s3cret",
            "redis://h?password=s3cret",
            "rediss://u:s3cret@h/0#insecure",
            "redis://u:s3cret@h:1?db=2",
            "redis://u:6?s3cret@h:1/0",
            "redis://u#s3cret@h:1/0",
            "rediss://u:s3cret@h:1/0#insecure",
            "redis://u:s3cret@a,b:1/0",
            "redis+sentinel://a/s?sentinel_user=x&sentinel_password=6?s3cret",
            "redis+sentinel://u:s3cret@a#b/s",
            "redis+sentinel://u:s3cret@a:,b/s",
        ] {
            let text = Target::parse(url).unwrap_err().to_string();
            assert!(text.starts_with("url = "), "{text}");
            assert!(!text.contains("s3cret"), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_with_several_hosts_was_not_said() {
        let refusal = |url| Target::parse(url).unwrap_err().to_string();
        for url in ["redis://a:1,b:2", "rediss://u:p,q@a:1,b:2/0", "redis://a,b"] {
            assert!(
                cfg!(not(feature = "tls")) || refusal(url).contains("several hosts take redis+sentinel://"),
                "{url}"
            );
        }
        for url in ["redis+sentinel://a:1,b:2", "redis+sentinel://a:1/", "redis+sentinel://a:1//0"] {
            assert!(refusal(url).contains("the path names the service"), "{url}");
        }
        assert!(Target::parse("redis://u:p,q@a:1/0").is_ok());
    }

    #[test]
    fn a_socket_whose_path_is_too_long_for_the_system_was_taken() {
        let text = Target::parse(&format!("unix:///{}", "a".repeat(200))).unwrap_err().to_string();
        assert!(text.contains("path"), "{text}");
    }

    #[test]
    fn a_user_without_a_password_was_not_logged_in() {
        for url in ["redis://me@h", "redis://me:@h", "unix:///run/redis.sock?user=me"] {
            let Target::Server(endpoint) = Target::parse(url).unwrap() else { panic!("{url}") };
            assert_eq!((endpoint.login.username(), endpoint.login.password()), (Some("me"), Some("")), "{url}");
        }
        let Target::Server(endpoint) = Target::parse("redis://h").unwrap() else { panic!() };
        assert_eq!((endpoint.login.username(), endpoint.login.password()), (None, None));
    }

    #[test]
    fn debug_hides_credentials() {
        let target = Target::parse("redis://me:s3cret@h:1/0").unwrap();
        assert!(!format!("{target:?}").contains("s3cret"));
        assert!(!format!("{target:?}").contains("me"));
    }
}
