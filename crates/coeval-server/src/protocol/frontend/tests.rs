// SPDX-License-Identifier: Apache-2.0

use super::*;

fn bind() -> Vec<u8> {
    let mut body = b"portal\0statement\0".to_vec();
    body.extend_from_slice(&[0, 2, 0, 0, 0, 1]);
    body.extend_from_slice(&[0, 2, 0, 0, 0, 2, b'4', b'2', 0xFF, 0xFF, 0xFF, 0xFF]);
    body.extend_from_slice(&[0, 1, 0, 1]);
    body
}

#[test]
fn a_bind_message_is_read_in_place() {
    let body = bind();
    let Frontend::Bind(bind) = Frontend::read(b'B', &body).unwrap() else { panic!("a Bind was sent") };
    assert_eq!((bind.portal, bind.statement), ("portal", "statement"));
    assert_eq!((bind.formats.of(0), bind.formats.of(1)), (Format::Text, Format::Binary));
    assert_eq!(bind.values.iter().collect::<Vec<_>>(), [Some(&b"42"[..]), None]);
    assert_eq!((bind.result_formats.of(0), bind.result_formats.of(7)), (Format::Binary, Format::Binary));
}

#[test]
fn a_message_that_is_cut_or_too_long_is_a_violation_of_the_protocol() {
    let messages: [(u8, Vec<u8>); 5] = [
        (b'B', bind()),
        (b'P', b"name\0SELECT 1\0\0\x01\0\0\0\x17".to_vec()),
        (b'D', b"Sname\0".to_vec()),
        (b'E', b"portal\0\0\0\0\x05".to_vec()),
        (b'Q', b"SELECT 1\0".to_vec()),
    ];
    for (kind, body) in messages {
        Frontend::read(kind, &body).unwrap();
        for length in 0..body.len() {
            let error = Frontend::read(kind, &body[..length]).unwrap_err();
            assert_eq!(error.state, SqlState::ProtocolViolation, "{} cut at {length}", kind as char);
        }
        let longer = [&body[..], b"x"].concat();
        let error = Frontend::read(kind, &longer).unwrap_err();
        assert_eq!(error.state, SqlState::ProtocolViolation, "{} with a byte more", kind as char);
    }
}

#[test]
fn text_that_is_not_utf8_is_named() {
    let error = Frontend::read(b'Q', b"SELECT '\xff'\0").unwrap_err();
    assert_eq!(error.state, SqlState::CharacterNotInRepertoire);
}

/// Bytes by chance, and messages with some of their bytes changed: each is read or refused, and a Bind that is read
/// gives as many values as it says.
#[test]
fn any_bytes_at_all_are_a_message_or_an_error() {
    let seed = 0x9E37_79B9_7F4A_7C15_u64;
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let kinds = b"QPBDECHSXdcfFpz\0";
    let mut read = 0;
    for _ in 0..100_000 {
        let mut body = match next() % 3 {
            0 => (0..next() % 40).map(|_| next() as u8).collect(),
            1 => bind(),
            _ => b"name\0SELECT 1\0\0\x01\0\0\0\x17".to_vec(),
        };
        for _ in 0..next() % 3 {
            if !body.is_empty() {
                let at = next() % body.len();
                body[at] = next() as u8;
            }
        }
        let kind = kinds[next() % kinds.len()];
        if let Ok(message) = Frontend::read(kind, &body) {
            read += 1;
            if let Frontend::Bind(bind) = message {
                assert_eq!(bind.values.iter().count(), bind.values.len(), "seed {seed}");
            }
        }
    }
    assert!(read > 1_000, "the bytes are not all refused: {read}");
}
