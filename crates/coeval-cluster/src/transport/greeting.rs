// SPDX-License-Identifier: Apache-2.0
//! The first bytes of a connection, both ways, behind TLS and before HTTP/2.
//!
//! ```text
//!   opener -> reached   "coeval cluster\n\0"   length: u32   greeting
//!   reached -> opener   "coeval cluster\n\0"   length: u32   greeting   length: u32   verdict
//!   opener -> reached                                                   length: u32   verdict
//! ```
//! Lengths are big-endian. A greeting is a message of Protocol Buffers, so that later versions can say more and earlier ones
//! still read whom they refuse. A verdict is empty if the other side is taken, and says why it is not otherwise, so that both
//! sides know. HTTP/2 begins when both verdicts are empty.
//!
//! That this stands below HTTP/2 lets one greeting speak for every service on the connection, and lets whoever has another
//! protocol be told by name at the first wrong byte.

use super::options::{Formats, ProtocolVersions};
use super::strangers::what_speaks;
use crate::node::{ClusterId, FormatVersion, Incarnation, NodeId};
use crate::node_address::NodeAddress;
use prost::Message;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// How every connection begins: the name of the protocol. No letter of it opens a record of TLS or a request of HTTP.
pub(super) const MAGIC: &[u8; 16] = b"coeval cluster\n\0";

/// A greeting has one text, the address: a host name has at most 253 letters. More is room for later versions.
const GREETING_BYTES_MAX: usize = 4 << 10;
/// No node has a greater number.
const NODES_MAX: u32 = 65_535;

/// A verdict is a sentence or two.
const VERDICT_BYTES_MAX: usize = 4 << 10;

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    pub(super) versions: ProtocolVersions,
    pub(super) cluster: ClusterId,
    pub(super) node: NodeId,
    /// Who is to be at the other end.
    pub(super) meant_for: NodeId,
    pub(super) incarnation: Incarnation,
    /// Where it says to be reached.
    pub(super) address: NodeAddress,
    pub(super) formats: Formats,
}

/// Its form on the wire. Numbers of fields are never given anew.
#[derive(Clone, PartialEq, Message)]
struct GreetingMessage {
    #[prost(uint32, tag = "1")]
    oldest_version: u32,
    #[prost(uint32, tag = "2")]
    newest_version: u32,
    #[prost(fixed64, tag = "3")]
    cluster: u64,
    #[prost(uint32, tag = "4")]
    node: u32,
    #[prost(uint32, tag = "5")]
    meant_for: u32,
    #[prost(uint64, tag = "6")]
    incarnation: u64,
    #[prost(string, tag = "7")]
    address: String,
    #[prost(uint32, tag = "8")]
    writes_format: u32,
    #[prost(uint32, tag = "9")]
    reads_format: u32,
}

/// Why no greeting has come.
#[derive(Debug)]
pub(super) enum GreetingError {
    /// The connection.
    Io(io::Error),
    /// What has come is none.
    Stranger(String),
}

impl From<io::Error> for GreetingError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Greeting {
    fn to_bytes(&self) -> Vec<u8> {
        let message = GreetingMessage {
            oldest_version: self.versions.oldest,
            newest_version: self.versions.newest,
            cluster: self.cluster.get(),
            node: self.node.get(),
            meant_for: self.meant_for.get(),
            incarnation: self.incarnation.get(),
            address: self.address.to_string(),
            writes_format: self.formats.writes.get(),
            reads_format: self.formats.reads.get(),
        };
        let bytes = message.encode_to_vec();
        assert!(bytes.len() <= GREETING_BYTES_MAX, "an address is short");
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let message = GreetingMessage::decode(bytes).ok()?;
        let node = |number: u32| (1..=NODES_MAX).contains(&number).then(|| NodeId::new(number));
        Some(Self {
            versions: ProtocolVersions { oldest: message.oldest_version, newest: message.newest_version },
            cluster: ClusterId::new(message.cluster),
            node: node(message.node)?,
            meant_for: node(message.meant_for)?,
            incarnation: Incarnation::new(message.incarnation),
            address: message.address.parse().ok()?,
            formats: Formats {
                writes: FormatVersion::new(message.writes_format),
                reads: FormatVersion::new(message.reads_format),
            },
        })
    }

    /// Says it.
    pub(super) async fn write(&self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let bytes = self.to_bytes();
        let mut out = Vec::with_capacity(MAGIC.len() + 4 + bytes.len());
        out.extend_from_slice(MAGIC);
        append(&mut out, &bytes);
        to.write_all(&out).await?;
        to.flush().await
    }

    /// Hears it. Nothing behind it is read.
    pub(super) async fn read(from: &mut (impl AsyncRead + Unpin)) -> Result<Self, GreetingError> {
        read_magic(from, &[MAGIC]).await?;
        Self::read_behind_magic(from).await
    }

    /// Hears what follows the first bytes.
    pub(super) async fn read_behind_magic(
        from: &mut (impl AsyncRead + Unpin),
    ) -> Result<Self, GreetingError> {
        let bytes = read_bytes(from, GREETING_BYTES_MAX).await?;
        Self::from_bytes(&bytes)
            .ok_or_else(|| GreetingError::Stranger("its greeting cannot be read".to_owned()))
    }
}

/// Reads how somebody begins who speaks as expected; no byte more than that, and none behind the first wrong one.
pub(super) async fn read_magic(
    from: &mut (impl AsyncRead + Unpin),
    expected: &[&[u8; MAGIC.len()]],
) -> Result<[u8; MAGIC.len()], GreetingError> {
    let mut first = [0; MAGIC.len()];
    let mut length = 0;
    while length < first.len() {
        let read = from.read(&mut first[length..]).await?;
        length += read;
        let is_expected = expected.iter().any(|magic| magic.starts_with(&first[..length]));
        if read == 0 || !is_expected {
            return Err(GreetingError::Stranger(what_speaks(&first[..length]).to_owned()));
        }
    }
    Ok(first)
}

/// Says that the other side is taken, or why not.
pub(super) async fn write_verdict(
    to: &mut (impl AsyncWrite + Unpin),
    refusal: Option<&str>,
) -> io::Result<()> {
    let mut text = refusal.unwrap_or_default();
    while text.len() > VERDICT_BYTES_MAX {
        text = &text[..text.floor_char_boundary(VERDICT_BYTES_MAX)];
    }
    let mut out = Vec::with_capacity(4 + text.len());
    append(&mut out, text.as_bytes());
    to.write_all(&out).await?;
    to.flush().await
}

/// Hears whether this side is taken, and if not, why.
pub(super) async fn read_verdict(
    from: &mut (impl AsyncRead + Unpin),
) -> Result<Option<String>, GreetingError> {
    let bytes = read_bytes(from, VERDICT_BYTES_MAX).await?;
    let text = String::from_utf8_lossy(&bytes);
    // What a stranger says is shown in logs.
    let text: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    Ok((!text.is_empty()).then_some(text))
}

/// Appends bytes with their length.
pub(super) fn append(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("what opens a connection has a megabyte at most");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Reads bytes with their length.
pub(super) async fn read_bytes(
    from: &mut (impl AsyncRead + Unpin),
    most: usize,
) -> Result<Vec<u8>, GreetingError> {
    let length = from.read_u32().await? as usize;
    if length > most {
        return Err(GreetingError::Stranger(format!("{length} bytes of greeting, more than {most}")));
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes).await?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting() -> Greeting {
        Greeting {
            versions: ProtocolVersions { oldest: 1, newest: 3 },
            cluster: ClusterId::new(0x0102_0304_0506_0708),
            node: NodeId::new(2),
            meant_for: NodeId::new(1),
            incarnation: Incarnation::new(5),
            address: "n2:7001".parse().unwrap(),
            formats: Formats { writes: FormatVersion::new(9), reads: FormatVersion::new(10) },
        }
    }

    const GOLDEN: &[u8] = b"coeval cluster\n\0\
        \x00\x00\x00\x20\x08\x01\x10\x03\x19\x08\x07\x06\x05\x04\x03\x02\x01\x20\x02\x28\x01\x30\x05\
        \x3a\x07n2:7001\x40\x09\x48\x0a";

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn a_greeting_has_these_bytes_and_is_read_from_them() {
        block_on(async {
            let mut out = Vec::new();
            greeting().write(&mut out).await.unwrap();
            assert_eq!(out, GOLDEN);
            let mut rest = &[GOLDEN, b"more"].concat()[..];
            assert_eq!(Greeting::read(&mut rest).await.unwrap(), greeting());
            assert_eq!(rest, b"more");
        });
    }

    #[test]
    fn what_is_cut_or_changed_is_never_a_greeting_and_takes_little_memory() {
        block_on(async {
            for end in 0..GOLDEN.len() {
                assert!(Greeting::read(&mut &GOLDEN[..end]).await.is_err(), "{end} bytes");
            }
            for place in 0..20 {
                let mut changed = GOLDEN.to_vec();
                changed[place] ^= 0x80;
                assert!(Greeting::read(&mut &changed[..]).await.is_err(), "byte {place}");
            }
            let huge = [&MAGIC[..], &[0xff; 64]].concat();
            let Err(GreetingError::Stranger(what)) = Greeting::read(&mut &huge[..]).await else { panic!() };
            assert!(what.contains("more than 4096"), "{what}");
            // An address that would be two lines in a log.
            let mut address = GOLDEN.to_vec();
            let place = address.iter().position(|byte| *byte == b'2').unwrap();
            address[place] = b'\n';
            assert!(matches!(Greeting::read(&mut &address[..]).await, Err(GreetingError::Stranger(_))));
            // A node of a number that is none.
            let node = [&GOLDEN[..35], &[0x28, 0x80, 0x80, 0x04], &GOLDEN[37..]].concat();
            let mut node = node;
            node[19] += 2;
            assert!(matches!(Greeting::read(&mut &node[..]).await, Err(GreetingError::Stranger(_))));
        });
    }

    #[test]
    fn a_verdict_is_one_line_however_it_came() {
        block_on(async {
            let mut out = Vec::new();
            write_verdict(&mut out, None).await.unwrap();
            assert_eq!(read_verdict(&mut &out[..]).await.unwrap(), None);
            out.clear();
            write_verdict(&mut out, Some(&"ä\n".repeat(3_000))).await.unwrap();
            let read = read_verdict(&mut &out[..]).await.unwrap().unwrap();
            assert!(read.len() <= VERDICT_BYTES_MAX && read.starts_with("ä ä "), "{}", read.len());
        });
    }
}
