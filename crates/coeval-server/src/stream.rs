// SPDX-License-Identifier: Apache-2.0
//! A connection's bytes: plain, encrypted, or from this process.

use crate::auth::rules::Encryption;
use crate::tls::ClientCertificate;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

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

    /// Another handle on the same connection, which is closed when both are. It is for asking the system about it.
    ///
    /// # Errors
    /// If the system has no room for one; `NotConnected` without a connection.
    pub(crate) fn another_handle(&self) -> io::Result<OwnedFd> {
        let connection = match self {
            Self::Plain(stream) => stream.as_fd(),
            Self::Tls(stream) => stream.get_ref().0.as_fd(),
            Self::Inside(stream, _) => stream.as_fd(),
            Self::Closed => return Err(io::ErrorKind::NotConnected.into()),
        };
        connection.try_clone_to_owned()
    }

    /// Sends some of these bytes, and gives how many; waits while the client does not read. Dropped on the way, it has
    /// sent none.
    ///
    /// # Errors
    /// What the connection answers.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes).await,
            Self::Tls(stream) => stream.write(bytes).await,
            Self::Inside(stream, _) => stream.write(bytes).await,
            Self::Closed => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Sends what has been encrypted and not sent yet.
    ///
    /// # Errors
    /// What the connection answers.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
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
