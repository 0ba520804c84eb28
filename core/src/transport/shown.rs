//! What of a refused URL an error may show.

/// The URL without its login and its query, on one line. A refused URL is not understood, so its login may stand where others
/// have host and port: what does not look like these is hidden too.
pub(super) fn hide_credentials(url: &str) -> String {
    let is_scheme = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    // Where a scheme is missing, `://` comes from something else.
    let (scheme, rest) = match url.split_once("://").filter(|(scheme, _)| is_scheme(scheme)) {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), url),
    };
    let (rest, query) = rest.find(['?', '#']).map_or((rest, ""), |at| rest.split_at(at));
    if query.contains('@') {
        // Part of a password in the query, or behind an open ? or # in that before the host: either way all may be secret.
        return format!("{scheme}***");
    }
    let query = if query.is_empty() { "" } else { "?***" };
    let (login, rest) = rest.rsplit_once('@').map_or(("", rest), |(_, rest)| ("***@", rest));
    let (hosts, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let hosts = if hosts.split(',').all(is_plain) { hosts } else { "***" };
    let shown = format!("{scheme}{login}{hosts}{path}{query}");
    shown.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.into() }).collect()
}

/// Whether it looks like a host with or without a port, or is empty.
fn is_plain(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port),
        _ => (host, ""),
    };
    let is_address = |inner: &str| inner.chars().all(|c| c.is_ascii_hexdigit() || matches!(c, ':' | '.'));
    let named = match name.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
        Some(inner) => is_address(inner),
        None => name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')),
    };
    named && port.len() <= 5 && port.chars().all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_paths_show_and_logins_and_queries_do_not() {
        for (url, shown) in [
            ("redis://u:s3cret@h:1/x", "redis://***@h:1/x"),
            ("redis://u:s3@cret@h/0?db=s3cret", "redis://***@h/0?***"),
            ("redis+sentinel://u:s3cret@[::1]:7000,b,,c:7/s/x", "redis+sentinel://***@[::1]:7000,b,,c:7/s/x"),
            ("unix:///run/a.sock?pass=s3cret", "unix:///run/a.sock?***"),
            ("localhost:6379", "localhost:6379"),
            ("http://[::1/", "http://***/"),
            ("redis://h/0\n", "redis://h/0\\n"),
            ("redis+sentinel://a/s?sentinel_password=p@s3cret", "redis+sentinel://***"),
            ("", ""),
        ] {
            assert_eq!(hide_credentials(url), shown);
        }
    }

    #[test]
    fn a_password_whose_host_is_missing_or_whose_characters_end_the_login_too_early_was_shown() {
        for url in ["redis://:s3cret", "redis://u:s3cret/0", "redis://u:s3cret", "redis://u:1234#s3cret@h", "u:s3cret"]
        {
            assert!(!hide_credentials(url).contains("s3cret"), "{url}");
        }
    }
}
