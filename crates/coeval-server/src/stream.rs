// SPDX-License-Identifier: Apache-2.0
//! A connection's bytes: plain, encrypted, or from this process.

use crate::auth::rules::Encryption;
use crate::protocol::backend::Output;
use crate::tls::ClientCertificate;
use socket2::SockRef;
use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

/// How long a client is answered that has closed its side: it may have closed that half only, and wait.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);

/// A connection to a client.
pub(crate) enum Stream {
    /// As it is.
    Plain(TcpStream),
    /// Encrypted.
    Tls(Box<TlsStream<TcpStream>>),
    /// From this process, on behalf of a client whose own connection to it is encrypted or not.
    Inside(UnixStream, Encryption),
    /// None any more.
    Closed,
}

impl Stream {
    /// Appends what has come to the buffer's free room; waits if nothing has. 0 at the end.
    ///
    /// # Errors
    /// What the connection answers.
    pub(crate) async fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        debug_assert!(buffer.capacity() > buffer.len(), "there is room to read into");
        match self {
            Self::Plain(stream) => stream.read_buf(buffer).await,
            Self::Tls(stream) => stream.read_buf(buffer).await,
            Self::Inside(stream, _) => stream.read_buf(buffer).await,
            Self::Closed => Ok(0),
        }
    }

    /// Whether others on the way can read it.
    pub(crate) fn encryption(&self) -> Encryption {
        match self {
            Self::Tls(_) => Encryption::Tls,
            Self::Inside(_, encryption) => *encryption,
            Self::Plain(_) | Self::Closed => Encryption::None,
        }
    }

    /// The certificate that the client has proven to have, if it has shown one.
    pub(crate) fn client_certificate(&self) -> Option<ClientCertificate> {
        match self {
            Self::Tls(stream) => stream.get_ref().1.peer_certificates()?.first().map(ClientCertificate::of),
            Self::Plain(_) | Self::Inside(..) | Self::Closed => None,
        }
    }

    /// Ready once the client has gone: when it has reset the connection, or closed its side some time ago. Never if it
    /// has sent more, behind which its end is not seen.
    pub(crate) async fn gone(&self) {
        let peeked = match self {
            Self::Plain(stream) => stream.peek(&mut [0]).await,
            Self::Tls(stream) => stream.get_ref().0.peek(&mut [0]).await,
            Self::Inside(stream, _) => {
                let peek = || SockRef::from(stream).peek(&mut [MaybeUninit::uninit()]);
                stream.async_io(Interest::READABLE, peek).await
            }
            Self::Closed => return,
        };
        match peeked {
            Ok(0) => tokio::time::sleep(ANSWER_TIME_MAX).await,
            Ok(_) => std::future::pending().await,
            Err(_) => {}
        }
    }

    /// Sends all of it that has not been sent; waits while the client does not read. Dropped on the way, it has
    /// noted what went out, so that whoever sends next goes on there.
    ///
    /// # Errors
    /// What the connection answers.
    pub(crate) async fn send(&mut self, output: &mut Output) -> io::Result<()> {
        while !output.unsent().is_empty() {
            let sent = match self {
                Self::Plain(stream) => stream.write(output.unsent()).await?,
                Self::Tls(stream) => stream.write(output.unsent()).await?,
                Self::Inside(stream, _) => stream.write(output.unsent()).await?,
                Self::Closed => return Err(io::ErrorKind::NotConnected.into()),
            };
            if sent == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            output.note_sent(sent);
        }
        match self {
            Self::Tls(stream) => stream.flush().await,
            Self::Plain(_) | Self::Inside(..) | Self::Closed => Ok(()),
        }
    }

    /// Tells the client that nothing more comes.
    pub(crate) async fn close(&mut self) {
        // A client that has gone needs not be told.
        let _ = match self {
            Self::Plain(stream) => stream.shutdown().await,
            Self::Tls(stream) => stream.shutdown().await,
            Self::Inside(stream, _) => stream.shutdown().await,
            Self::Closed => Ok(()),
        };
    }
}
