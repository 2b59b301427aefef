// SPDX-License-Identifier: Apache-2.0
//! The packets that open a connection. They have no kind: `length:i32 code:i32 body`.

use super::frontend::violation;
use coeval::{SqlError, SqlState};
use coeval_sql::utf8;

const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;
const CANCEL_REQUEST: u32 = 80_877_102;
const MAJOR_VERSION: u32 = 3;

/// Longest opening packet: as in PostgreSQL.
const STARTUP_BYTES_MAX: usize = 10_000;
const HEADER_BYTES: usize = 8;

/// What a client opens with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// It asks for TLS.
    Ssl,
    /// It asks for encryption by GSSAPI.
    Gss,
    /// It wants the statement of another connection to end.
    Cancel {
        /// The connection's number.
        pid: i32,
        /// What proves that it may.
        secret: i32,
    },
    /// It wants a session.
    Startup(Startup),
}

/// A client that wants a session.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Startup {
    /// The minor version of the protocol.
    pub(crate) minor: u32,
    /// Names and values, in order.
    pub(crate) parameters: Vec<(String, String)>,
}

impl Opening {
    /// The packet at the beginning of these bytes and its length, if all of it has come.
    ///
    /// # Errors
    /// `08P01` for what is no such packet, `0A000` for a version of the protocol that we do not speak.
    pub(crate) fn read(bytes: &[u8]) -> Result<Option<(Self, usize)>, SqlError> {
        let Some(length) = bytes.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if !(HEADER_BYTES..=STARTUP_BYTES_MAX).contains(&length) {
            return Err(violation("invalid length of startup packet"));
        }
        let Some(packet) = bytes.get(..length) else { return Ok(None) };
        let (header, body) = packet.split_at(HEADER_BYTES);
        let code = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        let opening = match (code, body) {
            (SSL_REQUEST, []) => Self::Ssl,
            (GSS_REQUEST, []) => Self::Gss,
            (CANCEL_REQUEST, [pid @ .., a, b, c, d]) if pid.len() == 4 => Self::Cancel {
                pid: i32::from_be_bytes([pid[0], pid[1], pid[2], pid[3]]),
                secret: i32::from_be_bytes([*a, *b, *c, *d]),
            },
            (SSL_REQUEST | GSS_REQUEST | CANCEL_REQUEST, _) => {
                return Err(violation("invalid length of startup packet"));
            }
            (version, body) if version >> 16 == MAJOR_VERSION => {
                Self::Startup(Startup { minor: version & 0xFFFF, parameters: parameters(body)? })
            }
            (version, _) => {
                let (major, minor) = (version >> 16, version & 0xFFFF);
                let message =
                    format!("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.0");
                return Err(SqlError::new(SqlState::FeatureNotSupported, message));
            }
        };
        Ok(Some((opening, length)))
    }
}

/// Pairs of strings, each ended by a zero byte, and a zero byte behind all of them.
fn parameters(body: &[u8]) -> Result<Vec<(String, String)>, SqlError> {
    let wrong = || violation("invalid startup packet layout: expected terminator as last byte");
    let Some((0, mut rest)) = body.split_last() else { return Err(wrong()) };
    let mut parameters = Vec::new();
    while !rest.is_empty() {
        let mut string = || {
            let end = rest.iter().position(|&byte| byte == 0).ok_or_else(wrong)?;
            let text = utf8(&rest[..end])?.to_owned();
            rest = &rest[end + 1..];
            Ok::<_, SqlError>(text)
        };
        parameters.push((string()?, string()?));
    }
    Ok(parameters)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(code: u32, body: &[u8]) -> Vec<u8> {
        let length = (body.len() + HEADER_BYTES) as u32;
        [&length.to_be_bytes()[..], &code.to_be_bytes(), body].concat()
    }

    #[test]
    fn a_startup_packet_gives_its_parameters() {
        let bytes = packet(3 << 16, b"user\0me\0database\0\0\0");
        let (opening, length) = Opening::read(&bytes).unwrap().unwrap();
        let parameters = [("user", "me"), ("database", "")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(opening, Opening::Startup(Startup { minor: 0, parameters: parameters.to_vec() }));
        assert_eq!(length, bytes.len());
        for short in 0..bytes.len() {
            assert_eq!(Opening::read(&bytes[..short]), Ok(None), "{short} bytes of it");
        }
    }

    #[test]
    fn packets_that_cannot_be_are_refused() {
        let wrong = [
            (vec![0, 0, 0, 4], SqlState::ProtocolViolation),
            (vec![0xFF; 8], SqlState::ProtocolViolation),
            (b"GET / HTTP/1.1\r\n".to_vec(), SqlState::ProtocolViolation),
            (packet(2 << 16, b"\0"), SqlState::FeatureNotSupported),
            (packet(3 << 16, b""), SqlState::ProtocolViolation),
            (packet(3 << 16, b"user"), SqlState::ProtocolViolation),
            (packet(3 << 16, b"user\0\0"), SqlState::ProtocolViolation),
            (packet(3 << 16, b"user\0\xff\0\0"), SqlState::CharacterNotInRepertoire),
            (packet(SSL_REQUEST, b"x"), SqlState::ProtocolViolation),
            (packet(CANCEL_REQUEST, b"1234"), SqlState::ProtocolViolation),
        ];
        for (bytes, state) in wrong {
            assert_eq!(Opening::read(&bytes).map_err(|error| error.state), Err(state), "{bytes:?}");
        }
    }

    #[test]
    fn a_cancel_request_names_connection_and_secret() {
        let bytes = packet(CANCEL_REQUEST, &[0, 0, 0, 7, 0xFF, 0xFF, 0xFF, 0xFE]);
        assert_eq!(Opening::read(&bytes).unwrap().unwrap().0, Opening::Cancel { pid: 7, secret: -2 });
    }
}
