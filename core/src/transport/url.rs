//! From a URL to where its server is.

use std::fmt;
use std::path::Path;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};

use crate::error::{Error, Result};

use super::hosts::{Ring, Seeds};

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

const EXPECTED: &str = "a URL like redis://[user:password@]host[:port][/db], rediss://…, unix:///path[?db=N&user=U&pass=P], \
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
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
        if scheme.starts_with("rediss") && cfg!(not(feature = "tls")) {
            return Err(refuse("rediss:// needs redlatch built with its `tls` feature"));
        }
        // Unread, either would be taken for what it is not: a password with an open # or ? in it, the database as other
        // libraries have it, or a server whose certificate nobody looks at.
        if url.contains('#') {
            return Err(refuse("a # is percent-encoded as %23"));
        }
        let query = url.split_once('?').map_or("", |(_, query)| query);
        let names: &[&str] = if scheme == "unix" { &["db", "user", "pass"] } else { &[] };
        let known = |pair: &str| names.contains(&pair.split_once('=').map_or(pair, |(name, _)| name));
        match scheme {
            "redis" | "rediss" | "unix" if !query.split('&').all(|pair| pair.is_empty() || known(pair)) => {
                return Err(refuse("the query of unix:// knows db, user and pass, and redis:// has none"));
            }
            "redis" | "rediss" | "unix" => {}
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
        if endpoint.host().contains(',') {
            return Err(refuse("several hosts take redis+sentinel:// or redis+cluster://"));
        }
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
    pub(super) fn is_tls(&self) -> bool {
        matches!(self.address, ConnectionAddr::TcpTls { .. })
    }

    pub(super) fn new(info: ConnectionInfo) -> Result<Endpoint, String> {
        let address = info.addr().clone();
        let login = info.redis_settings().clone().set_lib_name("redlatch", env!("CARGO_PKG_VERSION"));
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

/// The URL with everything between `://` and the last `@`, and every query, replaced, and on one line.
fn hide_credentials(url: &str) -> String {
    let is_scheme = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    // Where a scheme is missing, `://` comes from something else.
    let (scheme, rest) = url.split_once("://").filter(|(scheme, _)| is_scheme(scheme)).unwrap_or(("", url));
    let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
    let hidden = path.rsplit_once('@').map_or(path.to_owned(), |(_, host)| format!("***@{host}"));
    let rest = match query {
        // Part of a password in the query, or behind an open ? in that before the host: either way all may be secret.
        Some(query) if query.contains('@') => "***".to_owned(),
        Some(_) => format!("{hidden}?***"),
        None => hidden,
    };
    let rest: String =
        rest.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.into() }).collect();
    if scheme.is_empty() { rest } else { format!("{scheme}://{rest}") }
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
            "redis://u:s3cret@h:1?db=2",
            "redis://u:6?s3cret@h:1/0",
            "redis://u#s3cret@h:1/0",
            "rediss://u:s3cret@h:1/0#insecure",
            "unix:///run/redis.sock?password=s3cret",
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
    fn debug_hides_credentials() {
        let target = Target::parse("redis://me:s3cret@h:1/0").unwrap();
        assert!(!format!("{target:?}").contains("s3cret"));
        assert!(!format!("{target:?}").contains("me"));
    }
}
