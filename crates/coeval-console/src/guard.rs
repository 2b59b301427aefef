// SPDX-License-Identifier: Apache-2.0
//! Who may ask at all, and what browsers are told to refuse.
//!
//! - Without TLS only names of the loopback are answered: another site that has its own name point to 127.0.0.1 would be the
//!   same origin as the console to a browser, and could ask whatever it likes.
//! - What changes something says where it comes from, if browsers say so: `Origin` and `Sec-Fetch-Site` are no other site's.
//!   And it carries the login's second value (`logins.rs`).
//! - The page runs scripts and styles of its own only, and is shown in no other's frame.

use crate::peer::Peer;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use coeval_server::Encryption;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, StatusCode};

/// The header with the second value of a login.
pub(crate) const CSRF_HEADER: &str = "x-coeval-csrf";

/// What scripts and styles a browser takes; a page adds its nonce.
pub(crate) fn content_security_policy(nonce: Option<&str>) -> String {
    let styles = nonce.map(|nonce| format!(" 'nonce-{nonce}'")).unwrap_or_default();
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'{styles}; img-src 'self' data:; font-src 'self'; \
         connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
}

/// Answers requests that may be answered, and says to browsers what they are to refuse.
pub(crate) async fn guard(request: Request, next: Next) -> Response {
    let encryption = request.extensions().get().map_or(Encryption::None, |peer: &Peer| peer.encryption);
    let mut response = match refused(request.method(), request.headers(), encryption) {
        Some(why) => (StatusCode::FORBIDDEN, why).into_response(),
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    if !headers.contains_key(header::CONTENT_SECURITY_POLICY) {
        let policy = HeaderValue::try_from(content_security_policy(None)).expect("it is a header's text");
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

/// Why a request is not answered.
fn refused(method: &Method, headers: &HeaderMap, encryption: Encryption) -> Option<&'static str> {
    let host = text(headers, "host").unwrap_or_default();
    if encryption == Encryption::None && !is_of_loopback(host) {
        return Some("Without TLS the console answers to 127.0.0.1, [::1] and localhost only.\n");
    }
    if matches!(*method, Method::GET | Method::HEAD) {
        return None;
    }
    let scheme = match encryption {
        Encryption::Tls => "https",
        Encryption::None => "http",
    };
    let is_of_another = text(headers, "origin").is_some_and(|origin| {
        let own = origin.split_once("://");
        !own.is_some_and(|(given, name)| given == scheme && name.eq_ignore_ascii_case(host))
    });
    let is_from_another =
        text(headers, "sec-fetch-site").is_some_and(|site| !matches!(site, "same-origin" | "none"));
    (is_of_another || is_from_another).then_some("This comes from another site.\n")
}

/// Whether a request's `Host` is a name that only this machine has: nobody else can have it point here.
fn is_of_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(name, _)| name),
        None => host.split(':').next(),
    };
    let Some(name) = name else { return false };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(method: &Method, given: &[(&'static str, &str)], encryption: Encryption) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.insert(*name, HeaderValue::from_str(value).unwrap());
        }
        refused(method, &headers, encryption).is_some()
    }

    #[test]
    fn names_of_others_are_not_answered_without_tls() {
        for (host, expected) in [
            ("127.0.0.1:8432", false),
            ("localhost", false),
            ("LOCALHOST:1", false),
            ("[::1]:8432", false),
            ("[::ffff:127.0.0.1]:1", false),
            ("evil.example:8432", true),
            ("127.0.0.1.evil.example", true),
            ("10.0.0.1:8432", true),
            ("", true),
        ] {
            assert_eq!(is_refused(&Method::GET, &[("host", host)], Encryption::None), expected, "{host}");
        }
        assert!(!is_refused(&Method::GET, &[("host", "db.example")], Encryption::Tls));
    }

    #[test]
    fn what_changes_something_comes_from_the_page() {
        let ask = |given: &[(&'static str, &str)]| {
            let all = [&[("host", "localhost:8432")], given].concat();
            is_refused(&Method::POST, &all, Encryption::None)
        };
        assert!(!ask(&[]));
        assert!(!ask(&[("origin", "http://localhost:8432"), ("sec-fetch-site", "same-origin")]));
        for given in [
            ("origin", "http://localhost:8433"),
            ("origin", "https://localhost:8432"),
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            assert!(ask(&[given]), "{given:?}");
        }
    }
}
