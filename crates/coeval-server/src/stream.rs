// SPDX-License-Identifier: Apache-2.0
//! A connection's bytes, plain or encrypted.

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

    /// Sends all of it; waits while the client does not read.
    ///
    /// # Errors
    /// What the connection answers.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.write_all(bytes).await,
            Self::Tls(stream) => {
                stream.write_all(bytes).await?;
                stream.flush().await
            }
            Self::Closed => Err(io::ErrorKind::NotConnected.into()),
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
