// SPDX-License-Identifier: Apache-2.0
//! What is kept of a password: the verifier of SCRAM-SHA-256 (RFC 5802, RFC 7677).
//!
//! It holds `StoredKey = H(ClientKey)` and `ServerKey`, from which neither the password nor a proof can be made. It is
//! written as PostgreSQL writes it: `SCRAM-SHA-256$4096:salt$StoredKey:ServerKey`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};
use std::fmt;
use std::num::NonZeroU32;
use std::sync::OnceLock;

const KEY_BYTES: usize = digest::SHA256_OUTPUT_LEN;
const SALT_BYTES: usize = 16;
/// As in PostgreSQL.
const ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).expect("it is not 0");

type Key = [u8; KEY_BYTES];

/// What proves a password without being one.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    iterations: NonZeroU32,
    salt: Vec<u8>,
    stored_key: Key,
    server_key: Key,
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).expect("the system gives random numbers");
    bytes
}

fn signed(key: &[u8], message: &[u8]) -> Key {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message);
    tag.as_ref().try_into().expect("a tag has the length of a key")
}

fn digested(key: &Key) -> Key {
    digest::digest(&digest::SHA256, key).as_ref().try_into().expect("a digest has the length of a key")
}

/// In the same time wherever they differ.
fn is_same(left: &Key, right: &Key) -> bool {
    left.iter().zip(right).fold(0, |sum, (l, r)| sum | (l ^ r)) == 0
}

impl Verifier {
    /// The mechanism's name.
    pub const MECHANISM: &str = "SCRAM-SHA-256";
    /// The length of a proof, and of the signature that answers it.
    pub const PROOF_BYTES: usize = KEY_BYTES;

    /// Of a password, with a salt of its own.
    ///
    /// # Panics
    /// If the system gives no random numbers.
    #[must_use]
    pub fn of_password(password: &str) -> Self {
        Self::salted(password, random::<SALT_BYTES>().to_vec())
    }

    /// Of a password with this salt.
    ///
    /// # Panics
    /// Never: a tag has the length of a key.
    #[must_use]
    pub fn salted(password: &str, salt: Vec<u8>) -> Self {
        // Text that has no normal form is used as it is, as in PostgreSQL.
        let normal = stringprep::saslprep(password);
        let normal = normal.as_deref().unwrap_or(password);
        let mut salted = [0; KEY_BYTES];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ITERATIONS, &salt, normal.as_bytes(), &mut salted);
        Self {
            iterations: ITERATIONS,
            salt,
            stored_key: digested(&signed(&salted, b"Client Key")),
            server_key: signed(&salted, b"Server Key"),
        }
    }

    /// Of nobody: no proof fits, and asking twice gives the same salt.
    ///
    /// # Panics
    /// If the system gives no random numbers.
    #[must_use]
    pub fn of_nobody(name: &str) -> Self {
        static SECRET: OnceLock<[u8; KEY_BYTES]> = OnceLock::new();
        let salt = signed(SECRET.get_or_init(random), name.as_bytes());
        Self {
            iterations: ITERATIONS,
            salt: salt[..SALT_BYTES].to_vec(),
            stored_key: random(),
            server_key: random(),
        }
    }

    /// Of its text; `None` if it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.trim().strip_prefix(Self::MECHANISM)?.strip_prefix('$')?;
        let (parameters, keys) = rest.split_once('$')?;
        let (iterations, salt) = parameters.split_once(':')?;
        let (stored_key, server_key) = keys.split_once(':')?;
        let key = |text: &str| STANDARD.decode(text).ok()?.try_into().ok();
        Some(Self {
            iterations: iterations.parse().ok()?,
            salt: STANDARD.decode(salt).ok()?,
            stored_key: key(stored_key)?,
            server_key: key(server_key)?,
        })
    }

    /// What is to be kept of a password as it is typed, or of a verifier that was made of one before.
    pub(crate) fn kept(password: &str) -> String {
        Self::parse(password).unwrap_or_else(|| Self::of_password(password)).to_text()
    }

    /// Its text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let [salt, stored, server] =
            [&self.salt[..], &self.stored_key[..], &self.server_key[..]].map(|bytes| STANDARD.encode(bytes));
        format!("{}${}:{salt}${stored}:{server}", Self::MECHANISM, self.iterations)
    }

    /// How often the password is hashed.
    #[must_use]
    pub fn iterations(&self) -> NonZeroU32 {
        self.iterations
    }

    /// What is hashed with it.
    #[must_use]
    pub fn salt(&self) -> &[u8] {
        &self.salt
    }

    /// The server's signature of an exchange of messages, if `proof` shows that the client knows the password: it is
    /// `ClientKey XOR HMAC(StoredKey, messages)` (RFC 5802, section 3). Takes the same time for every wrong proof.
    #[must_use]
    pub fn answer(
        &self,
        messages: &[u8],
        proof: &[u8; Self::PROOF_BYTES],
    ) -> Option<[u8; Self::PROOF_BYTES]> {
        let mut client_key = signed(&self.stored_key, messages);
        client_key.iter_mut().zip(proof).for_each(|(byte, proof)| *byte ^= proof);
        is_same(&digested(&client_key), &self.stored_key).then(|| signed(&self.server_key, messages))
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verifier_is_read_as_it_was_written() {
        let made = Verifier::of_password("pencil");
        let text = made.to_text();
        assert!(!text.contains("pencil"));
        assert_eq!(Verifier::parse(&text).unwrap(), made);
        assert_eq!(Verifier::kept(&text), text, "a verifier is kept as it is");
        assert_ne!(Verifier::kept("pencil"), text, "each has a salt of its own");
        for text in ["secret", "SCRAM-SHA-256$", "SCRAM-SHA-256$0:AA==$AA==:AA==", "md5abc"] {
            assert!(Verifier::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn nobody_has_the_same_salt_each_time() {
        assert_eq!(Verifier::of_nobody("a").salt(), Verifier::of_nobody("a").salt());
        assert_ne!(Verifier::of_nobody("a").salt(), Verifier::of_nobody("b").salt());
    }
}
