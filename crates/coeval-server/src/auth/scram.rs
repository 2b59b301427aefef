// SPDX-License-Identifier: Apache-2.0
//! SCRAM-SHA-256, the server's side (RFC 5802, RFC 7677), without channel binding.
//!
//! ```text
//! client  n,,n=user,r=NONCE
//! server  r=NONCE+OURS,s=SALT,i=ITERATIONS
//! client  c=biws,r=NONCE+OURS,p=PROOF
//! server  v=SIGNATURE
//! ```
//! The proof is `ClientKey XOR HMAC(StoredKey, all of that)`; we keep `StoredKey = H(ClientKey)` and `ServerKey`,
//! from which neither the password nor a proof can be made.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};
use std::fmt;
use std::num::NonZeroU32;
use std::sync::OnceLock;

/// The mechanism's name.
pub(crate) const MECHANISM: &str = "SCRAM-SHA-256";

const KEY_BYTES: usize = digest::SHA256_OUTPUT_LEN;
const SALT_BYTES: usize = 16;
const NONCE_BYTES: usize = 18;
/// As in PostgreSQL.
const ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).expect("it is not 0");

type Key = [u8; KEY_BYTES];

/// What proves a password without being one.
#[derive(Clone)]
pub(crate) struct Verifier {
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
fn is_same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && left.iter().zip(right).fold(0, |sum, (l, r)| sum | (l ^ r)) == 0
}

impl Verifier {
    /// Of a password, with a salt of its own.
    ///
    /// # Panics
    /// If the system gives no random numbers.
    pub(crate) fn of_password(password: &str) -> Self {
        let salt = random::<SALT_BYTES>();
        // Text that has no normal form is used as it is, as in PostgreSQL.
        let normal = stringprep::saslprep(password);
        let normal = normal.as_deref().unwrap_or(password);
        let mut salted = [0; KEY_BYTES];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ITERATIONS, &salt, normal.as_bytes(), &mut salted);
        Self {
            iterations: ITERATIONS,
            salt: salt.to_vec(),
            stored_key: digested(&signed(&salted, b"Client Key")),
            server_key: signed(&salted, b"Server Key"),
        }
    }

    /// Of nobody: no proof fits, and asking twice gives the same salt.
    pub(crate) fn of_nobody(name: &str) -> Self {
        static SECRET: OnceLock<[u8; KEY_BYTES]> = OnceLock::new();
        let salt = signed(SECRET.get_or_init(random), name.as_bytes());
        Self {
            iterations: ITERATIONS,
            salt: salt[..SALT_BYTES].to_vec(),
            stored_key: random(),
            server_key: random(),
        }
    }

    /// As PostgreSQL writes it: `SCRAM-SHA-256$4096:salt$StoredKey:ServerKey`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let rest = text.trim().strip_prefix(MECHANISM)?.strip_prefix('$')?;
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
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier")
    }
}

/// Why an exchange did not prove anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScramFault {
    /// A message is not as the mechanism says.
    Malformed,
    /// The client wants to bind to the channel, which we do not offer.
    ChannelBinding,
    /// The proof is wrong.
    WrongProof,
}

/// An exchange that waits for the client's proof.
#[derive(Debug)]
pub(crate) struct Exchange {
    verifier: Verifier,
    /// What the client's last message begins with: its first words, encoded.
    binding: String,
    nonce: String,
    client_first_bare: String,
    server_first: String,
}

impl Exchange {
    /// Takes the client's first message.
    ///
    /// # Errors
    /// If it makes no sense, or asks for what we do not offer.
    pub(crate) fn begin(verifier: Verifier, client_first: &str) -> Result<Self, ScramFault> {
        let ours = STANDARD.encode(random::<NONCE_BYTES>());
        Self::begin_with(verifier, client_first, &ours)
    }

    fn begin_with(verifier: Verifier, client_first: &str, ours: &str) -> Result<Self, ScramFault> {
        let mut parts = client_first.splitn(3, ',');
        let (Some(flag), Some(identity), Some(bare)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(ScramFault::Malformed);
        };
        match flag {
            "n" | "y" => {}
            flag if flag.starts_with("p=") => return Err(ScramFault::ChannelBinding),
            _ => return Err(ScramFault::Malformed),
        }
        // Who it is was said before; acting for somebody else is not offered.
        if !identity.is_empty() {
            return Err(ScramFault::Malformed);
        }
        let mut attributes = bare.split(',');
        let name = attributes.next().and_then(|name| name.strip_prefix("n="));
        let theirs = attributes.next().and_then(|nonce| nonce.strip_prefix("r="));
        let (Some(_), Some(theirs)) = (name, theirs) else { return Err(ScramFault::Malformed) };
        if theirs.is_empty() || !theirs.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(ScramFault::Malformed);
        }
        let nonce = format!("{theirs}{ours}");
        let salt = STANDARD.encode(&verifier.salt);
        let server_first = format!("r={nonce},s={salt},i={}", verifier.iterations);
        let binding = format!("c={}", STANDARD.encode(format!("{flag},,")));
        Ok(Self { verifier, binding, nonce, client_first_bare: bare.to_owned(), server_first })
    }

    /// What the client is to be sent.
    pub(crate) fn server_first(&self) -> &str {
        &self.server_first
    }

    /// Takes the client's last message; what it is to be sent if it has proven who it is.
    ///
    /// # Errors
    /// If it makes no sense, or the proof is wrong.
    pub(crate) fn finish(&self, client_last: &str) -> Result<String, ScramFault> {
        let (without_proof, proof) = client_last.rsplit_once(",p=").ok_or(ScramFault::Malformed)?;
        let proof = STANDARD.decode(proof).map_err(|_| ScramFault::Malformed)?;
        let mut attributes = without_proof.split(',');
        let binding = attributes.next().ok_or(ScramFault::Malformed)?;
        let nonce = attributes.next().and_then(|nonce| nonce.strip_prefix("r="));
        if binding != self.binding || nonce != Some(self.nonce.as_str()) || proof.len() != KEY_BYTES {
            return Err(ScramFault::Malformed);
        }
        let all = format!("{},{},{without_proof}", self.client_first_bare, self.server_first);
        let signature = signed(&self.verifier.stored_key, all.as_bytes());
        let mut client_key = [0; KEY_BYTES];
        for (index, byte) in client_key.iter_mut().enumerate() {
            *byte = proof[index] ^ signature[index];
        }
        if !is_same(&digested(&client_key), &self.verifier.stored_key) {
            return Err(ScramFault::WrongProof);
        }
        Ok(format!("v={}", STANDARD.encode(signed(&self.verifier.server_key, all.as_bytes()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, section 3: user `user`, password `pencil`.
    fn example() -> Verifier {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let mut salted = [0; KEY_BYTES];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ITERATIONS, &salt, b"pencil", &mut salted);
        Verifier {
            iterations: ITERATIONS,
            salt,
            stored_key: digested(&signed(&salted, b"Client Key")),
            server_key: signed(&salted, b"Server Key"),
        }
    }

    const OURS: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const LAST: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

    fn exchange() -> Exchange {
        Exchange::begin_with(example(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO", OURS).unwrap()
    }

    #[test]
    fn the_example_of_the_rfc_holds() {
        let exchange = exchange();
        let first = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        assert_eq!(exchange.server_first(), first);
        let last = exchange.finish(LAST).unwrap();
        assert_eq!(last, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn a_wrong_proof_nonce_or_binding_proves_nothing() {
        let wrong = LAST.replace("p=dHzb", "p=eHzb");
        assert_eq!(exchange().finish(&wrong), Err(ScramFault::WrongProof));
        assert_eq!(exchange().finish(&LAST.replace("r=rOpr", "r=xOpr")), Err(ScramFault::Malformed));
        assert_eq!(exchange().finish(&LAST.replace("c=biws", "c=eSws")), Err(ScramFault::Malformed));
        assert_eq!(exchange().finish("p="), Err(ScramFault::Malformed));
        let nobody = Exchange::begin_with(Verifier::of_nobody("x"), "n,,n=,r=rOprNGfwEbeRWgbNEkqO", OURS);
        assert_eq!(nobody.unwrap().finish(LAST), Err(ScramFault::WrongProof));
    }

    #[test]
    fn first_messages_that_make_no_sense_are_refused() {
        for message in ["", "n,,", "n,a=other,n=,r=x", "q,,n=,r=x", "n,,r=x", "n,,n=,r=", "n,,m=1,n=,r=x"] {
            let refused = Exchange::begin(example(), message).unwrap_err();
            assert_eq!(refused, ScramFault::Malformed, "{message}");
        }
        let bound = Exchange::begin(example(), "p=tls-server-end-point,,n=,r=x").unwrap_err();
        assert_eq!(bound, ScramFault::ChannelBinding);
    }

    #[test]
    fn a_verifier_of_postgresql_is_understood() {
        let own = example();
        let text = format!(
            "SCRAM-SHA-256$4096:{}${}:{}",
            STANDARD.encode(&own.salt),
            STANDARD.encode(own.stored_key),
            STANDARD.encode(own.server_key)
        );
        let parsed = Verifier::parse(&text).unwrap();
        let exchange = Exchange::begin_with(parsed, "n,,n=user,r=rOprNGfwEbeRWgbNEkqO", OURS).unwrap();
        assert!(exchange.finish(LAST).is_ok());
        for text in ["secret", "SCRAM-SHA-256$", "SCRAM-SHA-256$0:AA==$AA==:AA==", "md5abc"] {
            assert!(Verifier::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn nobody_has_the_same_salt_each_time() {
        assert_eq!(Verifier::of_nobody("a").salt, Verifier::of_nobody("a").salt);
        assert_ne!(Verifier::of_nobody("a").salt, Verifier::of_nobody("b").salt);
    }
}
