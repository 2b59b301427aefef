// SPDX-License-Identifier: Apache-2.0
//! [`Connection`]: one that is greeted, so that it is known who is at the other end, and that ends when it is told to.
//!
//! What speaks HTTP/2 on it runs in tasks of the libraries, which nobody can end. They end when reading fails: so that is how
//! they are told.

use super::error::LinkError;
use super::handler::Sender;
use hyper_util::rt::TokioIo;
use rustls_pki_types::CertificateDer;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsStream;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;

/// How long, and how much, is listened to whoever was refused.
const GOODBYE_TIME: Duration = Duration::from_secs(1);
const GOODBYE_BYTES: u64 = 1 << 20;

/// Bytes that go and come, encrypted or not.
pub(super) enum Wire {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A connection behind its greeting.
pub(super) struct Connection {
    wire: Wire,
    other: Sender,
    /// Reading fails from when this is done.
    ending: Pin<Box<WaitForCancellationFutureOwned>>,
    life: Arc<Life>,
}

/// What is known of the life of a connection, also behind its end. The libraries keep the reason of an end to themselves.
pub(super) struct Life {
    begin: Instant,
    /// Milliseconds from the beginning to when something was heard last.
    heard: AtomicU64,
    /// Why it can no longer be used, as the system says it.
    reason: OnceLock<String>,
    has_ended: AtomicBool,
}

impl Life {
    fn begin() -> Arc<Self> {
        let (heard, has_ended) = (AtomicU64::new(0), AtomicBool::new(false));
        Arc::new(Self { begin: Instant::now(), heard, reason: OnceLock::new(), has_ended })
    }

    /// Whether it has not ended yet.
    pub(super) fn goes_on(&self) -> bool {
        !self.has_ended.load(Ordering::Acquire) && self.reason.get().is_none()
    }

    /// Why the connection with this address has ended. What the libraries say of it counts if nothing better is known.
    pub(super) fn end(&self, address: &str, silence: Duration, otherwise: String) -> LinkError {
        let address = address.to_owned();
        if let Some(reason) = self.reason.get() {
            return LinkError::Ended { address, what: reason.clone() };
        }
        let heard = Duration::from_millis(self.heard.load(Ordering::Relaxed));
        let after = self.begin.elapsed().saturating_sub(heard);
        // The time of silence is counted by the library in two halves, each from a tick on that may be a little early.
        if after >= silence * 9 / 10 {
            return LinkError::Silent { address, after };
        }
        LinkError::Ended { address, what: otherwise }
    }

    /// Notes what reading or writing has given.
    fn note<T>(&self, result: &Poll<io::Result<T>>) {
        match result {
            Poll::Ready(Err(error)) => {
                let _ = self.reason.set(error.to_string());
            }
            Poll::Ready(Ok(_)) | Poll::Pending => {}
        }
    }

    fn note_heard(&self, bytes: usize) {
        if bytes == 0 {
            let _ = self.reason.set("the other side has closed it".to_owned());
        }
        let now = u64::try_from(self.begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.heard.store(now, Ordering::Relaxed);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.life.has_ended.store(true, Ordering::Release);
    }
}

impl Connection {
    /// With this node at the other end, until the token is cancelled.
    pub(super) fn new(wire: Wire, other: Sender, end: CancellationToken) -> Self {
        Self { wire, other, ending: Box::pin(end.cancelled_owned()), life: Life::begin() }
    }

    /// What is known of its life, also behind its end.
    pub(super) fn life(&self) -> Arc<Life> {
        Arc::clone(&self.life)
    }

    /// In the form that the library for HTTP/2 takes.
    pub(super) fn into_io(self) -> TokioIo<Self> {
        TokioIo::new(self)
    }
}

/// Every request that comes by a connection has the [`Sender`] among its extensions.
impl Connected for Connection {
    type ConnectInfo = Sender;

    fn connect_info(&self) -> Sender {
        self.other
    }
}

impl Wire {
    /// The certificate by which the other side has proven who it is.
    pub(super) fn certificate(&self) -> Option<&CertificateDer<'static>> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => stream.get_ref().1.peer_certificates()?.first(),
        }
    }

    /// Ends a connection so that what was said on it last arrives: with bytes unread, the system would cut it, and the other
    /// side would lose the reason.
    pub(super) async fn say_goodbye(mut self) {
        let drained = async {
            let _ = self.shutdown().await;
            let _ = tokio::io::copy(&mut (&mut self).take(GOODBYE_BYTES), &mut tokio::io::sink()).await;
        };
        let _ = timeout(GOODBYE_TIME, drained).await;
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.ending.as_mut().poll(cx).is_ready() {
            let ended = io::Error::new(io::ErrorKind::ConnectionAborted, "this node has ended it");
            let ended = Poll::Ready(Err(ended));
            self.life.note(&ended);
            return ended;
        }
        let (before, room) = (buffer.filled().len(), buffer.remaining());
        let read = Pin::new(&mut self.wire).poll_read(cx, buffer);
        self.life.note(&read);
        if matches!(read, Poll::Ready(Ok(()))) && room > 0 {
            self.life.note_heard(buffer.filled().len() - before);
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.wire).poll_write(cx, bytes);
        self.life.note(&written);
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.wire).poll_write_vectored(cx, parts);
        self.life.note(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.wire.is_write_vectored()
    }
}
