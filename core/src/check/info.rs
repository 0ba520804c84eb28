//! The reply to `INFO`, read.

use std::collections::HashMap;
use std::str::FromStr;
use std::time::Duration;

use crate::transport::presentable;

/// The fields of all its sections. Their values are fit to be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Info {
    fields: HashMap<String, String>,
}

/// A replica, as its primary describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replica {
    /// Host and port.
    pub(crate) address: String,
    /// It has synchronized, and follows.
    pub(crate) online: bool,
    /// Time since it was last heard of.
    pub(crate) lag: Option<Duration>,
}

impl Info {
    /// Reads what it can; a line of another shape is none.
    pub(crate) fn parse(text: &str) -> Info {
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
        let fields = lines.filter_map(|line| line.split_once(':'));
        Info { fields: fields.map(|(name, value)| (name.to_owned(), presentable(value))).collect() }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    pub(crate) fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        self.get(name)?.parse().ok()
    }

    /// Whether the field is there and has this value.
    pub(crate) fn is(&self, name: &str, value: &str) -> bool {
        self.get(name) == Some(value)
    }

    /// Major and minor number of the Redis version that the server is, or is compatible with.
    pub(crate) fn version(&self) -> Option<(u32, u32)> {
        let mut parts = self.get("redis_version")?.split('.');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }

    /// The replicas of a primary, in its order.
    pub(crate) fn replicas(&self) -> Vec<Replica> {
        let rows = (0..).map_while(|n| self.get(&format!("slave{n}")));
        rows.map(replica).collect()
    }
}

/// A row such as `ip=127.0.0.1,port=7001,state=online,offset=42,lag=0`.
fn replica(row: &str) -> Replica {
    let fields: HashMap<&str, &str> = row.split(',').filter_map(|pair| pair.split_once('=')).collect();
    let number = |name: &str| fields.get(name).and_then(|value| value.parse::<u64>().ok());
    let text = |name: &str| fields.get(name).copied().unwrap_or("?");
    Replica {
        address: format!("{}:{}", text("ip"), text("port")),
        online: text("state") == "online",
        lag: number("lag").map(Duration::from_secs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_and_other_lines_left_out() {
        let text = "# Server\r\nredis_version:7.0.15\r\n\r\n# Memory\r\nmaxmemory:0\r\nno field\r\nexecutable:/a:b\r\n";
        let info = Info::parse(text);
        assert_eq!(info.version(), Some((7, 0)));
        assert_eq!(info.number::<u64>("maxmemory"), Some(0));
        assert_eq!(info.get("executable"), Some("/a:b"));
        assert!(info.is("maxmemory", "0") && !info.is("maxmemory", "1") && !info.is("role", "master"));
        assert_eq!(info.number::<u64>("redis_version"), None);
        assert!(info.replicas().is_empty());
    }

    #[test]
    fn versions_of_another_shape_are_none() {
        for text in ["", "redis_version:", "redis_version:7", "redis_version:unstable.1"] {
            assert_eq!(Info::parse(text).version(), None, "{text:?}");
        }
        assert_eq!(Info::parse("redis_version:255.255.255").version(), Some((255, 255)));
    }

    #[test]
    fn replicas_are_read_in_every_shape() {
        let text = "master_repl_offset:1000\r\nslave0:ip=10.0.0.2,port=6379,state=online,offset=900,lag=1\r\n\
                    slave1:ip=::1,port=6380,state=wait_bgsave,offset=0,lag=0\r\nslave2:nonsense\r\n";
        let replicas = Info::parse(text).replicas();
        let second = Some(Duration::from_secs(1));
        let first = Replica { address: "10.0.0.2:6379".to_owned(), online: true, lag: second };
        assert_eq!(replicas[0], first);
        assert_eq!((replicas[1].address.as_str(), replicas[1].online), ("::1:6380", false));
        let unknown = Replica { address: "?:?".to_owned(), online: false, lag: None };
        assert_eq!(replicas[2..], [unknown]);
    }

    #[test]
    fn a_server_wrote_lines_of_its_own_into_a_log() {
        let info = Info::parse(&format!("maxmemory_policy:a\x1b[2J\rforged\0\r\nrole:{}", "x".repeat(10_000)));
        assert_eq!(info.get("maxmemory_policy"), Some("a\u{fffd}[2J\u{fffd}forged\u{fffd}"));
        assert!(info.get("role").unwrap().len() < 1_000);
    }
}
