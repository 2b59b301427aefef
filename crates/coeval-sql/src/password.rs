// SPDX-License-Identifier: Apache-2.0
//! What is kept of a password: the verifier of SCRAM-SHA-256 (RFC 5802, RFC 7677).
//!
//! It holds `StoredKey = H(ClientKey)` and `ServerKey`, from which neither the password nor a proof can be made. It is
//! written as PostgreSQL writes it: `SCRAM-SHA-256$4096:salt$StoredKey:ServerKey`.

use crate::error::{SqlError, SqlState};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};
use std::fmt;
use std::num::NonZeroU32;

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

/// Whether this is a hash as PostgreSQL keeps it: `md5` and 32 hexadecimal digits.
fn is_md5(text: &str) -> bool {
    let digits = text.strip_prefix("md5");
    digits.is_some_and(|digits| digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
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

    /// Of nobody: no proof fits, and who asks again is told the same salt, also after a restart with the same secret.
    ///
    /// # Panics
    /// If the system gives no random numbers.
    #[must_use]
    pub fn of_nobody(name: &str, secret: &[u8]) -> Self {
        let salt = signed(secret, name.as_bytes());
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

    /// Of a password as it is typed, or of the text of a verifier that was made of one before.
    ///
    /// # Errors
    /// `0A000` for an MD5 hash, which no authentication here could use; `22023` for a text that begins as a verifier and is none.
    /// Neither is taken for a plain password: anybody who sees the text would then know the password.
    pub fn of_text(text: &str) -> Result<Self, SqlError> {
        if let Some(verifier) = Self::parse(text) {
            return Ok(verifier);
        }
        if is_md5(text) {
            let message = "MD5 hashes of passwords are not supported";
            return Err(SqlError::new(SqlState::FeatureNotSupported, message).with_hint(
                "Give the password as it is typed, or its SCRAM-SHA-256 verifier as pg_authid of PostgreSQL has it.",
            ));
        }
        if text.trim().starts_with("SCRAM-SHA-256$") {
            let message = "the SCRAM-SHA-256 verifier cannot be read";
            return Err(SqlError::new(SqlState::InvalidParameterValue, message).with_hint(
                "It is written SCRAM-SHA-256$4096:salt$StoredKey:ServerKey, each part in base64.",
            ));
        }
        Ok(Self::of_password(text))
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
        let kept = |text: &str| Verifier::of_text(text).map(|verifier| verifier.to_text());
        assert_eq!(kept(&text), Ok(text.clone()), "a verifier is kept as it is");
        assert_ne!(kept("pencil"), Ok(text), "each has a salt of its own");
        for text in ["secret", "SCRAM-SHA-256$", "SCRAM-SHA-256$0:AA==$AA==:AA==", "md5abc"] {
            assert!(Verifier::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_hash_that_we_cannot_use_is_not_taken_for_a_password() {
        let state = |text: &str| Verifier::of_text(text).map_err(|error| error.state);
        assert_eq!(state("md5a6343a68d964ca596d9752250d54bb8a"), Err(SqlState::FeatureNotSupported));
        assert_eq!(state("md5A6343A68D964CA596D9752250D54BB8A"), Err(SqlState::FeatureNotSupported));
        assert_eq!(state("SCRAM-SHA-256$4096:no"), Err(SqlState::InvalidParameterValue));
        for password in ["md5", "md5a6343a68", "md5 is not what it was, and no hash", "SCRAM-SHA-256"] {
            assert!(state(password).is_ok(), "{password} can be a password");
        }
    }

    #[test]
    fn nobody_has_the_same_salt_for_the_same_secret() {
        let salt = |name: &str, secret: &[u8]| Verifier::of_nobody(name, secret).salt().to_vec();
        assert_eq!(salt("a", b"one"), salt("a", b"one"));
        assert_ne!(salt("a", b"one"), salt("b", b"one"));
        assert_ne!(salt("a", b"one"), salt("a", b"two"), "nobody else can tell a made salt");
        assert_eq!(salt("a", b"one").len(), Verifier::of_password("pencil").salt().len());
    }
}
