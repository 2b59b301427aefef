// SPDX-License-Identifier: Apache-2.0
//! A connection's bytes, plain or encrypted.

use crate::auth::rules::Encryption;
use crate::protocol::backend::Output;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// A connection to a client.
pub(crate) enum Stream {
    /// As it is.
    Plain(TcpStream),
    /// Encrypted.
    Tls(Box<TlsStream<TcpStream>>),
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
            Self::Closed => Ok(0),
        }
    }

    /// Whether others on the way can read it.
    pub(crate) fn encryption(&self) -> Encryption {
        match self {
            Self::Tls(_) => Encryption::Tls,
            Self::Plain(_) | Self::Closed => Encryption::None,
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
                Self::Closed => return Err(io::ErrorKind::NotConnected.into()),
            };
            if sent == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            output.note_sent(sent);
        }
        match self {
            Self::Tls(stream) => stream.flush().await,
            Self::Plain(_) | Self::Closed => Ok(()),
        }
    }

    /// Tells the client that nothing more comes.
    pub(crate) async fn close(&mut self) {
        // A client that has gone needs not be told.
        let _ = match self {
            Self::Plain(stream) => stream.shutdown().await,
            Self::Tls(stream) => stream.shutdown().await,
            Self::Closed => Ok(()),
        };
    }
}
