// SPDX-License-Identifier: Apache-2.0
//! What else may speak on the port, by its first bytes: so that a wrong address or a missing certificate is told by name.

/// A record of TLS that opens a connection, and one that refuses it.
const TLS_HANDSHAKE: u8 = 0x16;
const TLS_ALERT: u8 = 0x15;

/// What PostgreSQL's clients send behind a length of four bytes: version 3 of its protocol, or the wish for encryption.
const POSTGRES_REQUESTS: [[u8; 4]; 3] =
    [196_608_u32.to_be_bytes(), 80_877_103_u32.to_be_bytes(), 80_877_104_u32.to_be_bytes()];

/// What begins so.
pub(super) fn what_speaks(first: &[u8]) -> &'static str {
    let is_http = ["GET ", "POST", "PUT ", "HEAD", "OPTI", "HTTP"]
        .iter()
        .any(|word| first.starts_with(word.as_bytes()));
    match first {
        [TLS_HANDSHAKE | TLS_ALERT, 3, ..] => "it speaks TLS, and this node has no certificates",
        [b'P', b'R', b'I', b' ', ..] => "it speaks HTTP/2 without a greeting before it",
        _ if is_http => "it speaks HTTP/1",
        [_, _, _, _, request @ ..] if POSTGRES_REQUESTS.iter().any(|known| request.starts_with(known)) => {
            "it speaks the protocol of PostgreSQL, which has another port"
        }
        [] => "it has closed the connection without a word",
        _ => "it does not begin with a greeting",
    }
}

/// Whether a connection that begins so is to be one of TLS.
pub(super) fn opens_tls(first: &[u8]) -> bool {
    first.first() == Some(&TLS_HANDSHAKE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_known_by_their_first_bytes() {
        for (first, what) in [
            (&b"GET / HTTP/1.1\r\n"[..], "HTTP/1"),
            (b"PRI * HTTP/2.0\r\n", "HTTP/2"),
            (&[0x16, 3, 1, 2, 0], "TLS"),
            (&[0x15, 3, 3, 0, 2], "TLS"),
            (&[0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f], "PostgreSQL"),
            (&[0, 0, 0, 30, 0, 3, 0, 0, b'u'], "PostgreSQL"),
            (&[], "without a word"),
            (&[0x16], "does not begin with a greeting"),
            (&[0x80, 0x12, 0xff], "does not begin with a greeting"),
        ] {
            assert!(what_speaks(first).contains(what), "{first:?}: {}", what_speaks(first));
        }
    }
}
