// SPDX-License-Identifier: Apache-2.0
//! The page: what lies in `web/`, as it is.

use crate::guard::content_security_policy;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, StatusCode, header};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::HashMap;
use std::sync::OnceLock;

/// The file that stands for the page.
const INDEX: &str = "index.html";

/// What stands in it for the nonce of its styles.
const NONCE_MARK: &str = "{{nonce}}";

include!(concat!(env!("OUT_DIR"), "/files.rs"));

struct Asset {
    bytes: &'static [u8],
    content_type: &'static str,
    etag: String,
}

fn assets() -> &'static HashMap<&'static str, Asset> {
    static ASSETS: OnceLock<HashMap<&'static str, Asset>> = OnceLock::new();
    ASSETS.get_or_init(|| {
        let asset = |&(path, bytes): &(&'static str, &'static [u8])| {
            let etag = format!("\"{}\"", STANDARD.encode(digest(&SHA256, bytes)));
            (path, Asset { bytes, content_type: content_type(path), etag })
        };
        FILES.iter().map(asset).collect()
    })
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    }
}

/// The page itself, whose styles have a nonce of their own each time.
pub(crate) fn page() -> Response {
    let mut bytes = [0; 18];
    SystemRandom::new().fill(&mut bytes).expect("the system gives random numbers");
    let nonce = STANDARD.encode(bytes);
    let text = std::str::from_utf8(assets()[INDEX].bytes).expect("the page is text");
    let headers = [
        (header::CONTENT_TYPE, content_type(INDEX).to_owned()),
        (header::CONTENT_SECURITY_POLICY, content_security_policy(Some(&nonce))),
    ];
    (headers, text.replace(NONCE_MARK, &nonce)).into_response()
}

/// A file of the page; a browser that has it already is told so.
pub(crate) fn file(path: &str, headers: &HeaderMap) -> Response {
    let Some(asset) = assets().get(path).filter(|_| path != INDEX) else {
        return (StatusCode::NOT_FOUND, "There is no such page.\n").into_response();
    };
    let kept = [(header::ETAG, asset.etag.as_str()), (header::CACHE_CONTROL, "no-cache")];
    let is_there = headers.get(header::IF_NONE_MATCH).is_some_and(|given| given == asset.etag.as_str());
    if is_there {
        return (StatusCode::NOT_MODIFIED, kept).into_response();
    }
    (kept, [(header::CONTENT_TYPE, asset.content_type)], Body::from(asset.bytes)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_and_its_files_are_there() {
        let page = page();
        assert_eq!(page.status(), StatusCode::OK);
        assert!(page.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap().contains("'nonce-"));
        let none = HeaderMap::new();
        for (path, status) in
            [("app.js", 200), ("style.css", 200), ("nothing.js", 404), ("../Cargo.toml", 404)]
        {
            assert_eq!(file(path, &none).status(), status, "{path}");
        }
        let etag = file("app.js", &none).headers()[header::ETAG].clone();
        let again = HeaderMap::from_iter([(header::IF_NONE_MATCH, etag)]);
        assert_eq!(file("app.js", &again).status(), StatusCode::NOT_MODIFIED);
    }
}
