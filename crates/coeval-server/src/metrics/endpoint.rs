// SPDX-License-Identifier: Apache-2.0
//! The little HTTP that Prometheus needs: `GET /metrics`, one request a connection.

use crate::server::Shared;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

const REQUEST_BYTES_MAX: usize = 8 << 10;
const REQUEST_TIME_MAX: Duration = Duration::from_secs(5);
/// Requests that are answered at a time; others wait to be accepted.
const REQUESTS_MAX: usize = 8;

/// Answers requests until the task is ended.
pub(crate) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let turns = Arc::new(Semaphore::new(REQUESTS_MAX));
    loop {
        let Ok(turn) = Arc::clone(&turns).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let shared = Arc::clone(&shared);
                tokio::spawn(async move {
                    // Who does not read its answer in time goes without.
                    let _ = tokio::time::timeout(REQUEST_TIME_MAX, answer(stream, &shared)).await;
                    drop(turn);
                });
            }
            Err(error) => {
                tracing::debug!(%error, "cannot accept a request for metrics");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn answer(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if request.len() > REQUEST_BYTES_MAX || stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let line = request.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|&byte| byte == b' ');
    let (status, body) = match (words.next(), words.next()) {
        (Some(b"GET"), Some(b"/metrics")) => ("200 OK", shared.metrics.text(&shared.database)),
        (Some(b"GET"), _) => ("404 Not Found", "The figures are at /metrics.\n".to_owned()),
        _ => ("405 Method Not Allowed", String::new()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}
