// SPDX-License-Identifier: Apache-2.0
//! Asking a node without being one: how somebody comes to be a node of the cluster.
//!
//! ```text
//!   asks -> reached     "coeval joining\n\0"   length: u32   who asks, and what
//!   reached -> asks     length: u32   verdict   length: u32   answer, if the verdict is empty
//! ```
//! Who asks has no number yet, or does not know whose number is at the address that it reaches; so it cannot greet. All else has to
//! fit as between nodes: versions, formats, the cluster (unless it does not know that either), and with TLS a certificate of the
//! cluster's authorities for the host that it says to be at. One question, one answer, and the connection ends.

use super::dialing::{encrypt, reach};
use super::error::{ConfigurationError, LinkError};
use super::greeting::{
    Greeting, GreetingError, MAGIC, append, read_bytes, read_magic, read_verdict, write_verdict,
};
use super::options::{Formats, ProtocolVersions, Security, Timeouts};
use super::own_node::OwnNode;
use super::tls::{Tls, link_error, names_host};
use crate::node::{ClusterId, FormatVersion};
use crate::node_address::NodeAddress;
use bytes::Bytes;
use prost::Message;
use rustls_pki_types::CertificateDer;
use std::io;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

/// How a question begins, where nodes greet. As long as that, so that either is known by as many bytes.
pub(super) const ASK_MAGIC: &[u8; 16] = b"coeval joining\n\0";

/// A question has an address and a few numbers.
const ASK_BYTES_MAX: usize = 4 << 10;
/// An answer has the addresses of all nodes, each up to some 260 bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// What somebody is told that asks a node: who it is, and how it is protected, as a node's
/// [`TransportOptions`](super::TransportOptions).
#[derive(Clone, Debug)]
pub struct AskOptions {
    /// Where others are to reach it.
    pub address: NodeAddress,
    /// The cluster, if it is known: another one is refused then.
    pub cluster: Option<ClusterId>,
    /// What it writes and reads.
    pub formats: Formats,
    /// The versions of the protocol between nodes that it speaks.
    pub versions: ProtocolVersions,
    /// How connections are protected.
    pub security: Security,
    /// How long it waits.
    pub timeouts: Timeouts,
}

impl AskOptions {
    /// With the usual timeouts, of any cluster, and only of its own machine until it is told how connections are protected.
    #[must_use]
    pub fn new(address: NodeAddress, formats: Formats) -> Self {
        Self {
            address,
            cluster: None,
            formats,
            versions: ProtocolVersions::OWN,
            security: Security::LoopbackOnly,
            timeouts: Timeouts::default(),
        }
    }
}

/// Who asks, and what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    versions: ProtocolVersions,
    cluster: Option<ClusterId>,
    pub(super) address: NodeAddress,
    formats: Formats,
    pub(super) request: Bytes,
}

/// Its form on the wire. Numbers of fields are never given anew.
#[derive(Clone, PartialEq, Message)]
struct AskMessage {
    #[prost(uint32, tag = "1")]
    oldest_version: u32,
    #[prost(uint32, tag = "2")]
    newest_version: u32,
    #[prost(fixed64, optional, tag = "3")]
    cluster: Option<u64>,
    #[prost(string, tag = "4")]
    address: String,
    #[prost(uint32, tag = "5")]
    writes_format: u32,
    #[prost(uint32, tag = "6")]
    reads_format: u32,
    #[prost(bytes = "vec", tag = "7")]
    request: Vec<u8>,
}

impl Ask {
    fn to_bytes(&self) -> Vec<u8> {
        let message = AskMessage {
            oldest_version: self.versions.oldest,
            newest_version: self.versions.newest,
            cluster: self.cluster.map(ClusterId::get),
            address: self.address.to_string(),
            writes_format: self.formats.writes.get(),
            reads_format: self.formats.reads.get(),
            request: self.request.to_vec(),
        };
        message.encode_to_vec()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let message = AskMessage::decode(bytes).ok()?;
        Some(Self {
            versions: ProtocolVersions { oldest: message.oldest_version, newest: message.newest_version },
            cluster: message.cluster.map(ClusterId::new),
            address: message.address.parse().ok()?,
            formats: Formats {
                writes: FormatVersion::new(message.writes_format),
                reads: FormatVersion::new(message.reads_format),
            },
            request: message.request.into(),
        })
    }

    async fn write(&self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let bytes = self.to_bytes();
        let mut out = Vec::with_capacity(ASK_MAGIC.len() + 4 + bytes.len());
        out.extend_from_slice(ASK_MAGIC);
        append(&mut out, &bytes);
        to.write_all(&out).await?;
        to.flush().await
    }

    /// Hears what follows the first bytes.
    ///
    /// # Errors
    /// If nothing comes, or nothing that can be read.
    pub(super) async fn read_behind_magic(
        from: &mut (impl AsyncRead + Unpin),
    ) -> Result<Self, GreetingError> {
        let bytes = read_bytes(from, ASK_BYTES_MAX).await?;
        Self::from_bytes(&bytes)
            .ok_or_else(|| GreetingError::Stranger("what it asks cannot be read".to_owned()))
    }

    /// Why this node does not answer, if it does not: as between two nodes, in words that name the other by its address.
    pub(super) fn misfit(&self, own: &OwnNode, certificate: Option<&CertificateDer<'_>>) -> Option<String> {
        let (node, other, told) = (own.options.node, &self.address, &own.options);
        let (ours, theirs) = (told.versions, self.versions);
        if ours.oldest > theirs.newest || theirs.oldest > ours.newest {
            return Some(format!(
                "{node} speaks {ours} of the protocol between nodes, and {other} speaks {theirs}: bring the older program \
                 up to date"
            ));
        }
        if let Some(cluster) = self.cluster.filter(|cluster| *cluster != told.cluster) {
            return Some(format!("{node} is of {}, and {other} wants to be of {cluster}", told.cluster));
        }
        if told.formats.writes > self.formats.reads || self.formats.writes > told.formats.reads {
            return Some(format!(
                "{node} writes {} and reads up to {}, and {other} writes {} and reads up to {}: bring the older program up \
                 to date first",
                told.formats.writes, told.formats.reads, self.formats.writes, self.formats.reads
            ));
        }
        let host = other.host();
        let is_proven = certificate.is_some_and(|certificate| names_host(certificate, host));
        (own.tls.is_some() && !is_proven)
            .then(|| format!("the certificate of who asks is not for {host}, where it says to be"))
    }
}

/// What whoever opens a connection says first.
pub(super) enum Opening {
    /// It is a node.
    Greeting(Greeting),
    /// It is none yet.
    Ask(Ask),
}

impl Opening {
    /// Hears it. Nothing behind it is read.
    pub(super) async fn read(from: &mut (impl AsyncRead + Unpin)) -> Result<Self, GreetingError> {
        let magic = read_magic(from, &[MAGIC, ASK_MAGIC]).await?;
        if magic == *ASK_MAGIC {
            return Ask::read_behind_magic(from).await.map(Self::Ask);
        }
        Greeting::read_behind_magic(from).await.map(Self::Greeting)
    }
}

/// Answers who has asked, or says why not.
pub(super) async fn answer(
    to: &mut (impl AsyncWrite + Unpin),
    answer: Result<&[u8], &str>,
) -> io::Result<()> {
    match answer {
        Ok(bytes) if bytes.len() <= ANSWER_BYTES_MAX => {
            write_verdict(to, None).await?;
            let mut out = Vec::with_capacity(4 + bytes.len());
            append(&mut out, bytes);
            to.write_all(&out).await?;
            to.flush().await
        }
        Ok(_) => write_verdict(to, Some("the answer is longer than answers may be")).await,
        Err(refusal) => write_verdict(to, Some(refusal)).await,
    }
}

/// Asks whoever is at an address, once. Waits as long as a node waits for a connection, and for a call.
///
/// # Errors
/// If the certificates cannot be used, nobody is reached, or the other side refuses, with its reason.
pub(crate) async fn ask(options: &AskOptions, to: &NodeAddress, request: Bytes) -> Result<Bytes, AskError> {
    let tls = match &options.security {
        Security::Certificates(files) => Some(Tls::of(files, &options.address)?),
        Security::LoopbackOnly | Security::Insecure => None,
    };
    let address = to.to_string();
    let timed_out = |what, after| LinkError::TimedOut { address: address.clone(), what, after };
    let (begun, timeouts) = (Instant::now(), &options.timeouts);
    let connecting = async {
        let socket = reach(&options.security, to).await?;
        encrypt(tls.as_ref(), to, socket).await
    };
    let mut wire = timeout_at(begun + timeouts.connect, connecting)
        .await
        .map_err(|_| timed_out("a connection", timeouts.connect))??;
    let asking = async {
        let ask = Ask {
            versions: options.versions,
            cluster: options.cluster,
            address: options.address.clone(),
            formats: options.formats,
            request,
        };
        ask.write(&mut wire).await?;
        if let Some(reason) = read_verdict(&mut wire).await? {
            return Ok(Err(reason));
        }
        Ok::<_, GreetingError>(Ok(read_bytes(&mut wire, ANSWER_BYTES_MAX).await?))
    };
    let patience = timeouts.connect + timeouts.call;
    let answered =
        timeout_at(begun + patience, asking).await.map_err(|_| timed_out("an answer", patience))?;
    match answered {
        Ok(Ok(bytes)) => Ok(bytes.into()),
        Ok(Err(reason)) => Err(LinkError::Refused { address, reason }.into()),
        Err(GreetingError::Io(error)) => Err(link_error(&address, &error).into()),
        Err(GreetingError::Stranger(what)) => Err(LinkError::Stranger { address, what }.into()),
    }
}

/// Why a question has no answer. It may have been taken all the same.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// This side's certificates cannot be used.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// Nobody was reached, or who was does not answer.
    #[error(transparent)]
    Link(#[from] LinkError),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask_of(cluster: Option<u64>) -> Ask {
        Ask {
            versions: ProtocolVersions { oldest: 1, newest: 3 },
            cluster: cluster.map(ClusterId::new),
            address: "n2:7001".parse().unwrap(),
            formats: Formats { writes: FormatVersion::new(9), reads: FormatVersion::new(10) },
            request: Bytes::from_static(b"what"),
        }
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn a_question_is_read_as_it_was_written() {
        block_on(async {
            // The cluster of number 0 is one too, and another thing than no cluster.
            for cluster in [None, Some(0), Some(7)] {
                let (ask, mut out) = (ask_of(cluster), Vec::<u8>::new());
                ask.write(&mut out).await.unwrap();
                assert!(out.starts_with(ASK_MAGIC));
                let mut rest = &out[ASK_MAGIC.len()..];
                assert_eq!(Ask::read_behind_magic(&mut rest).await.unwrap(), ask);
                assert!(rest.is_empty());
            }
        });
    }

    #[test]
    fn a_question_takes_little_memory_however_long_it_says_to_be() {
        block_on(async {
            let huge = [0xff; 64];
            assert!(Ask::read_behind_magic(&mut &huge[..]).await.is_err());
        });
    }

    #[test]
    fn an_answer_is_told_from_a_refusal() {
        block_on(async {
            let mut out = Vec::<u8>::new();
            answer(&mut out, Ok(b"yes")).await.unwrap();
            let mut rest = &out[..];
            assert_eq!(read_verdict(&mut rest).await.unwrap(), None);
            assert_eq!(read_bytes(&mut rest, ANSWER_BYTES_MAX).await.unwrap(), b"yes");
            out.clear();
            answer(&mut out, Err("no")).await.unwrap();
            assert_eq!(read_verdict(&mut &out[..]).await.unwrap().as_deref(), Some("no"));
        });
    }
}
