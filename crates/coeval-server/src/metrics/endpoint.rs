// SPDX-License-Identifier: Apache-2.0
//! The little HTTP that Prometheus needs: `GET /metrics`, one request a connection.
//!
//! Whoever connects and says nothing is left after some seconds, and before that when others come: a few silent clients
//! keep nobody from the figures.

use crate::doorway::{Doorway, DoorwayLimits};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const REQUEST_BYTES_MAX: usize = 8 << 10;
const REQUEST_TIME_MAX: Duration = Duration::from_secs(5);

/// Requests that are about to be answered.
const LIMITS: DoorwayLimits = DoorwayLimits { all: 64, each_peer: 16 };

/// Answers requests with these figures until the task is ended.
pub(crate) async fn serve(
    listener: TcpListener,
    token: Option<String>,
    figures: impl Fn() -> String + Send + Sync + 'static,
) {
    let asked = Arc::new((token, figures));
    let doorway = Doorway::new(LIMITS);
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                let (asked, place) = (Arc::clone(&asked), doorway.enter(address));
                tokio::spawn(async move {
                    tokio::select! {
                        () = place.pushed_out() => {}
                        // Who does not read its answer in time goes without.
                        _ = tokio::time::timeout(REQUEST_TIME_MAX, answer(stream, asked.0.as_deref(), &asked.1)) => {}
                    }
                });
            }
            Err(error) => {
                tracing::debug!(%error, "cannot accept a request for metrics");
                doorway.make_room();
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn answer(
    mut stream: TcpStream,
    token: Option<&str>,
    figures: &(impl Fn() -> String + Sync),
) -> io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if request.len() > REQUEST_BYTES_MAX || stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let request = String::from_utf8_lossy(&request);
    let (status, more, body) = match status(&request, token) {
        Status::Found => ("200 OK", "", figures()),
        Status::Unauthorized => (
            "401 Unauthorized",
            "WWW-Authenticate: Bearer\r\n",
            "The token of the figures is wanted.\n".to_owned(),
        ),
        Status::NotFound => ("404 Not Found", "", "The figures are at /metrics.\n".to_owned()),
        Status::NotAllowed => ("405 Method Not Allowed", "", String::new()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\n{more}Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Found,
    Unauthorized,
    NotFound,
    NotAllowed,
}

/// What becomes of a request; with a token, only whoever has it learns more than that it is wanted.
fn status(request: &str, token: Option<&str>) -> Status {
    let mut lines = request.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    if token.is_some_and(|token| !lines.any(|line| proves(line, token))) {
        return Status::Unauthorized;
    }
    match (words.next(), words.next()) {
        (Some("GET"), Some("/metrics")) => Status::Found,
        (Some("GET"), _) => Status::NotFound,
        _ => Status::NotAllowed,
    }
}

/// Whether a line of a request is `Authorization: Bearer TOKEN`, or `Basic` with the token as the password of any user.
fn proves(line: &str, token: &str) -> bool {
    let Some((name, value)) = line.split_once(':') else { return false };
    let Some((scheme, given)) = value.trim().split_once(' ') else { return false };
    if !name.eq_ignore_ascii_case("authorization") {
        return false;
    }
    if scheme.eq_ignore_ascii_case("bearer") {
        return is_same(given.trim().as_bytes(), token.as_bytes());
    }
    let decoded = STANDARD.decode(given.trim()).unwrap_or_default();
    let password = decoded.iter().position(|&byte| byte == b':').map(|colon| &decoded[colon + 1..]);
    scheme.eq_ignore_ascii_case("basic") && password.is_some_and(|given| is_same(given, token.as_bytes()))
}

/// In a time that says nothing about where they differ.
fn is_same(left: &[u8], right: &[u8]) -> bool {
    digest(&SHA256, left).as_ref() == digest(&SHA256, right).as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_a_token_only_whoever_has_it_sees_figures() {
        let ask = |header: &str, token| status(&format!("GET /metrics HTTP/1.1\r\n{header}\r\n\r\n"), token);
        assert_eq!(ask("Host: x", None), Status::Found);
        // "user:geheim" and "user:falsch" in base64.
        let token = Some("geheim");
        for (header, expected) in [
            ("Authorization: Bearer geheim", Status::Found),
            ("authorization:  bearer geheim", Status::Found),
            ("Authorization: Basic dXNlcjpnZWhlaW0=", Status::Found),
            ("Authorization: Basic dXNlcjpmYWxzY2g=", Status::Unauthorized),
            ("Authorization: Basic geheim", Status::Unauthorized),
            ("Authorization: Bearer geheim2", Status::Unauthorized),
            ("Authorization: Bearer", Status::Unauthorized),
            ("X-Authorization: Bearer geheim", Status::Unauthorized),
            ("Host: x", Status::Unauthorized),
        ] {
            assert_eq!(ask(header, token), expected, "{header}");
        }
        assert_eq!(status("POST / HTTP/1.1\r\n\r\n", token), Status::Unauthorized);
        assert_eq!(status("POST /metrics HTTP/1.1\r\n\r\n", None), Status::NotAllowed);
        assert_eq!(status("GET / HTTP/1.1\r\n\r\n", None), Status::NotFound);
    }
}
