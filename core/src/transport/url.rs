//! From a URL to where its server is.

use std::fmt;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};

use crate::error::{Error, Result};

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

const EXPECTED: &str = "a URL like redis://[user:password@]host[:port][/db], rediss://…, unix:///path[?db=N], \
                        redis+sentinel://[user:password@]host[:port][,host[:port]…]/service[/db], \
                        redis+cluster://[user:password@]host[:port][,host[:port]…] or memory://[name]; reserved characters in user and password percent-encoded";

/// The port of a server whose URL names none.
const SERVER_PORT: u16 = 6_379;

/// The port of a sentinel whose URL names none.
const SENTINEL_PORT: u16 = 26_379;

impl Target {
    /// Understands `url`; an error shows it without credentials.
    pub(crate) fn parse(url: &str) -> Result<Target> {
        if let Some(name) = url.strip_prefix("memory://") {
            let name = name.trim_end_matches('/');
            return Ok(Target::Memory((!name.is_empty()).then(|| name.to_owned())));
        }
        let refuse = |why: &str| Error::config("url", hide_credentials(url), format!("{why}: {EXPECTED}"));
        let scheme = url.split_once("://").map(|(scheme, _)| scheme);
        match scheme {
            Some("redis" | "unix") => {}
            Some("redis+sentinel") => {
                return Ring::parse(url).map(|ring| Target::Sentinel(Box::new(ring))).map_err(|why| refuse(&why));
            }
            Some("redis+cluster") => {
                return Seeds::parse(url).map(|seeds| Target::Cluster(Box::new(seeds))).map_err(|why| refuse(&why));
            }
            Some("rediss") if cfg!(feature = "tls") => {}
            Some("rediss") => return Err(refuse("rediss:// needs redlatch built with its `tls` feature")),
            _ => return Err(refuse("unknown scheme")),
        }
        let info = url.into_connection_info().map_err(|error| refuse(&error.to_string()))?;
        let endpoint = Endpoint::new(info).map_err(|why| refuse(&why))?;
        Ok(Target::Server(Box::new(endpoint)))
    }
}

/// Sentinels, and what to look for. `Display` and `Debug` show no credentials.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    pub(crate) sentinels: Vec<Endpoint>,
    pub(crate) service: String,
    /// Login and database of the servers; its address stands for that of the primary.
    pub(crate) primary: Endpoint,
    shown: String,
}

impl Ring {
    fn parse(url: &str) -> Result<Ring, String> {
        let parts = Parts::of(url)?;
        let mut path = parts.path.split('/');
        let service = path.next().unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if service.is_empty() || !service.chars().all(plain) {
            return Err("the service is one or more of A-Z a-z 0-9 . - _".to_owned());
        }
        let db = path.next().unwrap_or_default();
        if path.next().is_some() {
            return Err("nothing comes after the database".to_owned());
        }
        let (mut user, mut password) = ("", "");
        for (key, value) in parts.query {
            match key {
                "sentinel_user" => user = value,
                "sentinel_password" => password = value,
                _ => return Err("the query knows sentinel_user and sentinel_password".to_owned()),
            }
            if value.contains(['@', ':', '/', '#', '[', ']']) {
                return Err("reserved characters in the query are percent-encoded".to_owned());
            }
        }
        let login = if password.is_empty() && user.is_empty() { String::new() } else { format!("{user}:{password}@") };
        let sentinels = endpoints(&parts.hosts, &login, "", SENTINEL_PORT)?;
        let primary = endpoints(&["primary"], parts.login, db, 1)?.remove(0);
        let names: Vec<&str> = sentinels.iter().map(Endpoint::authority).collect();
        let shown = format!("redis+sentinel://{}/{service}/{}", names.join(","), primary.login.db());
        Ok(Ring { sentinels, service: service.to_owned(), primary, shown })
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.shown
    }
}

/// Some nodes of a cluster. `Display` and `Debug` show no credentials.
#[derive(Clone, Debug)]
pub(crate) struct Seeds {
    /// At least one.
    pub(crate) nodes: Vec<Endpoint>,
    shown: String,
}

impl Seeds {
    fn parse(url: &str) -> Result<Seeds, String> {
        let parts = Parts::of(url)?;
        if !matches!(parts.path, "" | "0") || !parts.query.is_empty() {
            return Err("a cluster has database 0 only, and its URL no query".to_owned());
        }
        let nodes = endpoints(&parts.hosts, parts.login, "0", SERVER_PORT)?;
        let names: Vec<&str> = nodes.iter().map(Endpoint::authority).collect();
        let shown = format!("redis+cluster://{}", names.join(","));
        Ok(Seeds { nodes, shown })
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.shown
    }
}

/// The parts of a URL with several hosts.
struct Parts<'a> {
    /// With its `@`, or empty.
    login: &'a str,
    hosts: Vec<&'a str>,
    path: &'a str,
    query: Vec<(&'a str, &'a str)>,
}

impl<'a> Parts<'a> {
    fn of(url: &'a str) -> Result<Parts<'a>, String> {
        let (_, rest) = url.split_once("://").unwrap_or_default();
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let at = authority.rfind('@').map_or(0, |at| at + 1);
        let (login, hosts) = authority.split_at(at);
        let hosts: Vec<&str> = hosts.split(',').collect();
        if hosts.iter().any(|host| host.is_empty()) {
            return Err("a host is missing".to_owned());
        }
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let query = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect();
        Ok(Parts { login, hosts, path: path.trim_end_matches('/'), query })
    }
}

/// The servers at these hosts; `port` where none is named.
fn endpoints(hosts: &[&str], login: &str, db: &str, port: u16) -> Result<Vec<Endpoint>, String> {
    let endpoint = |host: &&str| {
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        let port = if has_port { String::new() } else { format!(":{port}") };
        let info = format!("redis://{login}{host}{port}/{db}").into_connection_info();
        info.map_err(|error| error.to_string()).and_then(Endpoint::new)
    };
    hosts.iter().map(endpoint).collect()
}

/// One server: address and login. `Display` and `Debug` show no credentials.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) address: ConnectionAddr,
    pub(crate) login: RedisConnectionInfo,
    shown: String,
}

impl Endpoint {
    fn new(info: ConnectionInfo) -> Result<Endpoint, String> {
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
    fn authority(&self) -> &str {
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
        ConnectionAddr::Unix(path) => format!("unix://{}?db={db}", path.display()),
        _ => "server".to_owned(),
    }
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

/// The URL with everything between `://` and the last `@`, and every query, replaced.
fn hide_credentials(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let rest = rest.rsplit_once('@').map_or(rest.to_owned(), |(_, host)| format!("***@{host}"));
    let rest = rest.split_once('?').map_or(rest.clone(), |(path, _)| format!("{path}?***"));
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
        assert_eq!(shown("memory://"), "memory None");
        assert_eq!(shown("memory://shared"), "memory Some(\"shared\")");
    }

    #[test]
    fn sentinels_a_service_and_two_logins_are_understood() {
        let url =
            "redis+sentinel://me:s3cret@[::1]:7000,b,c:7002/my.service-1/3?sentinel_user=it&sentinel_password=p%40ss";
        assert_eq!(shown(url), "redis+sentinel://[::1]:7000,b:26379,c:7002/my.service-1/3");
        let Target::Sentinel(ring) = Target::parse(url).unwrap() else { panic!("no ring") };
        let logins = |endpoint: &Endpoint| {
            let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
            (text(endpoint.login.username()), text(endpoint.login.password()), endpoint.login.db())
        };
        assert!(ring.sentinels.iter().all(|it| logins(it) == ("it".to_owned(), "p@ss".to_owned(), 0)));
        let primary = ring.primary.at("::2", 7009);
        assert_eq!(primary.as_str(), "redis://[::2]:7009/3");
        assert_eq!(logins(&primary), ("me".to_owned(), "s3cret".to_owned(), 3));
        assert!(!format!("{ring:?}").contains("s3cret") && !format!("{ring:?}").contains("p@ss"));
        assert_eq!(shown("redis+sentinel://a/s"), "redis+sentinel://a:26379/s/0");
    }

    #[test]
    fn nodes_of_a_cluster_are_understood() {
        assert_eq!(shown("redis+cluster://me:s3cret@a,[::1]:7000/0"), "redis+cluster://a:6379,[::1]:7000");
        let Target::Cluster(seeds) = Target::parse("redis+cluster://me:s3%40@a,b:7001").unwrap() else { panic!() };
        assert!(seeds.nodes.iter().all(|node| node.login.password() == Some("s3@")));
        assert_eq!(seeds.nodes[1].as_str(), "redis://b:7001/0");
        assert!(!format!("{seeds:?}").contains("s3"));
    }

    #[test]
    fn refused_urls_name_the_option_and_hide_the_password() {
        for url in [
            "",
            "localhost:6379",
            "http://u:s3cret@x",
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
