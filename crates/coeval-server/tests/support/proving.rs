// SPDX-License-Identifier: Apache-2.0
//! A client's side of SCRAM-SHA-256, step by step, so that tests can go wrong at each.

use super::{Message, Raw, message};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};
use std::num::NonZeroU32;

pub const MECHANISM: &str = "SCRAM-SHA-256";
pub const FIRST_BARE: &str = "n=,r=fyko+d2lbbFgONRv9qkxdawL";

/// The mechanisms that the server offers to whom it asks for a proof.
pub fn offered(message: &Message) -> Vec<String> {
    assert_eq!((message.kind, &message.body[..4]), ('R', &[0, 0, 0, 10][..]), "{message:?}");
    let names = message.body[4..].split(|&byte| byte == 0).filter(|name| !name.is_empty());
    names.map(|name| String::from_utf8(name.to_vec()).unwrap()).collect()
}

/// The message that chooses a mechanism and begins it; `gs2` is what the client says of the channel.
pub fn first(mechanism: &str, gs2: &str) -> Vec<u8> {
    let text = format!("{gs2}{FIRST_BARE}");
    let mut body = format!("{mechanism}\0").into_bytes();
    body.extend_from_slice(&(text.len() as u32).to_be_bytes());
    body.extend_from_slice(text.as_bytes());
    message(b'p', &body)
}

/// What the server challenges with.
pub struct Challenge {
    text: String,
}

impl Challenge {
    pub fn of(message: &Message) -> Self {
        assert_eq!((message.kind, &message.body[..4]), ('R', &[0, 0, 0, 11][..]), "{message:?}");
        Self { text: String::from_utf8(message.body[4..].to_vec()).unwrap() }
    }

    fn attribute(&self, name: &str) -> &str {
        self.text.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('=')).unwrap()
    }

    /// The salt of the name that wants in.
    pub fn salt(&self) -> Vec<u8> {
        STANDARD.decode(self.attribute("s")).unwrap()
    }

    /// The message that proves this password, bound to these bytes of the channel.
    pub fn proof(&self, password: &str, gs2: &str, channel: &[u8]) -> Vec<u8> {
        let bound = STANDARD.encode([gs2.as_bytes(), channel].concat());
        let without_proof = format!("c={bound},r={}", self.attribute("r"));
        let iterations: NonZeroU32 = self.attribute("i").parse().unwrap();
        let mut salted = [0; 32];
        let salt = self.salt();
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, &salt, password.as_bytes(), &mut salted);
        let sign = |key: &[u8], text: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text);
        let client_key = sign(&salted, b"Client Key");
        let stored_key = digest::digest(&digest::SHA256, client_key.as_ref());
        let all = format!("{FIRST_BARE},{},{without_proof}", self.text);
        let signature = sign(stored_key.as_ref(), all.as_bytes());
        let proof: Vec<u8> = client_key.as_ref().iter().zip(signature.as_ref()).map(|(k, s)| k ^ s).collect();
        message(b'p', format!("{without_proof},p={}", STANDARD.encode(proof)).as_bytes())
    }
}

impl Raw {
    /// Asks for a session and gets the challenge for this name.
    pub fn challenged(&mut self, user: &str) -> Challenge {
        self.challenged_with(&[("user", user)])
    }

    /// The same with these parameters, which name the user.
    pub fn challenged_with(&mut self, parameters: &[(&str, &str)]) -> Challenge {
        self.send_startup(parameters);
        assert_eq!(offered(&self.next().unwrap()), [MECHANISM]);
        self.send(&first(MECHANISM, "n,,"));
        Challenge::of(&self.next().unwrap())
    }

    /// Tries a password; the messages that come of it, up to the first of the session or the end.
    pub fn try_password(&mut self, user: &str, password: &str) -> Vec<Message> {
        self.try_password_with(&[("user", user)], password)
    }

    /// The same with these parameters, which name the user.
    pub fn try_password_with(&mut self, parameters: &[(&str, &str)], password: &str) -> Vec<Message> {
        let proof = self.challenged_with(parameters).proof(password, "n,,", b"");
        self.send(&proof);
        let mut messages = Vec::new();
        while let Some(message) = self.next() {
            let is_last = message.kind == 'Z';
            messages.push(message);
            if is_last {
                break;
            }
        }
        messages
    }
}
