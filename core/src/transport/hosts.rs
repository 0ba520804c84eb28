//! URLs that name several hosts: sentinels, and nodes of a cluster.

use redis::IntoConnectionInfo;

use super::Endpoint;
use super::url::pairs;

/// The port of a server whose URL names none.
const SERVER_PORT: u16 = 6_379;

/// The port of a sentinel whose URL names none.
const SENTINEL_PORT: u16 = 26_379;

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
    pub(super) fn parse(url: &str) -> Result<Ring, String> {
        let parts = Parts::of(url)?;
        let mut path = parts.path.split('/');
        let service = path.next().unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if service.is_empty() {
            return Err("the path names the service that the sentinels watch, as in /mymaster".to_owned());
        }
        if !service.chars().all(plain) {
            return Err("the service is one or more of A-Z a-z 0-9 . - _".to_owned());
        }
        let db = path.next().unwrap_or_default();
        if path.next().is_some() {
            return Err("nothing comes after the database".to_owned());
        }
        let (mut user, mut password) = ("", "");
        for (key, value) in pairs(parts.query, &["sentinel_user", "sentinel_password"])? {
            if key == "sentinel_user" {
                user = value;
            } else {
                password = value;
            }
        }
        let login = if password.is_empty() && user.is_empty() { String::new() } else { format!("{user}:{password}@") };
        let sentinels = parts.endpoints(&login, "", SENTINEL_PORT)?;
        let primary = endpoint(parts.scheme, parts.login, "primary", db, 1)?;
        let names: Vec<&str> = sentinels.iter().map(Endpoint::authority).collect();
        let shown = format!("{}+sentinel://{}/{service}/{}", parts.scheme, names.join(","), primary.login.db());
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
    pub(super) fn parse(url: &str) -> Result<Seeds, String> {
        let parts = Parts::of(url)?;
        if !matches!(parts.path, "" | "0") || !parts.query.is_empty() {
            return Err("a cluster has database 0 only, and its URL no query".to_owned());
        }
        let nodes = parts.endpoints(parts.login, "0", SERVER_PORT)?;
        let names: Vec<&str> = nodes.iter().map(Endpoint::authority).collect();
        let shown = format!("{}+cluster://{}", parts.scheme, names.join(","));
        Ok(Seeds { nodes, shown })
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.shown
    }
}

/// The parts of a URL with several hosts.
struct Parts<'a> {
    /// `redis`, or `rediss` for TLS.
    scheme: &'a str,
    /// With its `@`, or empty.
    login: &'a str,
    hosts: Vec<&'a str>,
    path: &'a str,
    query: &'a str,
}

impl<'a> Parts<'a> {
    fn of(url: &'a str) -> Result<Parts<'a>, String> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let scheme = scheme.split('+').next().unwrap_or_default();
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let at = authority.rfind('@').map_or(0, |at| at + 1);
        let (login, hosts) = authority.split_at(at);
        let hosts: Vec<&str> = hosts.split(',').collect();
        if hosts.iter().any(|host| host.is_empty()) {
            return Err("a host is missing".to_owned());
        }
        // It would be taken for the port of a server, whatever is meant.
        if hosts.iter().any(|host| host.ends_with(':')) {
            return Err("a port is missing".to_owned());
        }
        Ok(Parts { scheme, login, hosts, path: path.trim_end_matches('/'), query })
    }

    /// The servers at the hosts; `port` where none is named.
    fn endpoints(&self, login: &str, db: &str, port: u16) -> Result<Vec<Endpoint>, String> {
        self.hosts.iter().map(|host| endpoint(self.scheme, login, host, db, port)).collect()
    }
}

fn endpoint(scheme: &str, login: &str, host: &str, db: &str, port: u16) -> Result<Endpoint, String> {
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
    let port = if has_port { String::new() } else { format!(":{port}") };
    let info = format!("{scheme}://{login}{host}{port}/{db}").into_connection_info();
    info.map_err(|error| error.to_string()).and_then(Endpoint::new)
}

#[cfg(test)]
mod tests {
    use super::super::Target;
    use super::*;

    fn shown(url: &str) -> String {
        match Target::parse(url).unwrap() {
            Target::Sentinel(ring) => ring.as_str().to_owned(),
            Target::Cluster(seeds) => seeds.as_str().to_owned(),
            other => panic!("{other:?}"),
        }
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
}
