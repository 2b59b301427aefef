// SPDX-License-Identifier: Apache-2.0
//! [`Connection`]: one that is greeted, so that it is known who is at the other end, and that ends when it is told to.
//!
//! What speaks HTTP/2 on it runs in tasks of the libraries, which nobody can end. They end when reading fails: so that is how
//! they are told.

use super::handler::Sender;
use hyper_util::rt::TokioIo;
use rustls_pki_types::CertificateDer;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;
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
    alive: Arc<()>,
}

/// Tells whether a connection is still there.
#[derive(Clone)]
pub(super) struct Life(Weak<()>);

impl Life {
    /// Whether it has not ended yet.
    pub(super) fn goes_on(&self) -> bool {
        self.0.strong_count() > 0
    }
}

impl Connection {
    /// With this node at the other end, until the token is cancelled.
    pub(super) fn new(wire: Wire, other: Sender, end: CancellationToken) -> Self {
        Self { wire, other, ending: Box::pin(end.cancelled_owned()), alive: Arc::new(()) }
    }

    /// Who is at the other end.
    pub(super) fn other(&self) -> Sender {
        self.other
    }

    /// Whether it is still there.
    pub(super) fn life(&self) -> Life {
        Life(Arc::downgrade(&self.alive))
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
            let what = io::Error::new(io::ErrorKind::ConnectionAborted, "this node has ended it");
            return Poll::Ready(Err(what));
        }
        Pin::new(&mut self.wire).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.wire).poll_write(cx, bytes)
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
        Pin::new(&mut self.wire).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.wire.is_write_vectored()
    }
}
