// SPDX-License-Identifier: Apache-2.0
//! SCRAM-SHA-256, the server's side (RFC 5802, RFC 7677), with channel binding to the server's certificate
//! (`tls-server-end-point`, RFC 5929) where a connection is encrypted.
//!
//! ```text
//! client  n,,n=user,r=NONCE
//! server  r=NONCE+OURS,s=SALT,i=ITERATIONS
//! client  c=biws,r=NONCE+OURS,p=PROOF
//! server  v=SIGNATURE
//! ```
//! With channel binding, the first words are `p=tls-server-end-point` and `c=` holds them and the digest of the
//! certificate that the client has seen. Somebody between the two, who has another certificate, cannot pass that on.
//!
//! What is kept of the password is its [`Verifier`], which checks the proof.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use coeval_sql::Verifier;
use ring::rand::{SecureRandom, SystemRandom};
use std::sync::Arc;

/// The mechanism's name.
const MECHANISM: &str = Verifier::MECHANISM;

/// Its name with channel binding.
const MECHANISM_PLUS: &str = "SCRAM-SHA-256-PLUS";

/// The way of binding that we know.
const BINDING: &str = "p=tls-server-end-point";

/// The ways to prove a password that a connection has: with channel binding if it knows the digest of the certificate
/// that its client was shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mechanisms {
    certificate: Option<Arc<[u8]>>,
}

/// What a client binds its proof to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    /// Nothing, on a connection that could not be bound to.
    Unbindable,
    /// Nothing, though there was a certificate to bind to.
    Unbound,
    /// The certificate with this digest.
    Bound(Arc<[u8]>),
}

impl Mechanisms {
    pub(crate) fn new(certificate: Option<Arc<[u8]>>) -> Self {
        Self { certificate }
    }

    /// Their names, the best first.
    pub(crate) fn names(&self) -> &'static [&'static str] {
        if self.certificate.is_some() { &[MECHANISM_PLUS, MECHANISM] } else { &[MECHANISM] }
    }

    /// What the client that has chosen this one binds to; `None` if it was not offered.
    pub(crate) fn chosen(&self, name: &[u8]) -> Option<Channel> {
        match &self.certificate {
            Some(digest) if name == MECHANISM_PLUS.as_bytes() => Some(Channel::Bound(Arc::clone(digest))),
            Some(_) if name == MECHANISM.as_bytes() => Some(Channel::Unbound),
            None if name == MECHANISM.as_bytes() => Some(Channel::Unbindable),
            Some(_) | None => None,
        }
    }
}

const NONCE_BYTES: usize = 18;

/// Why an exchange did not prove anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScramFault {
    /// A message is not as the mechanism says.
    Malformed,
    /// The client wants to bind to the channel in a way that was not offered.
    ChannelBinding,
    /// The client could bind to the channel, and believes that we cannot: somebody took our offer away.
    Downgraded,
    /// The client has seen another certificate than ours: somebody is between us.
    OtherChannel,
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
    pub(crate) fn begin(
        verifier: Verifier,
        channel: &Channel,
        client_first: &str,
    ) -> Result<Self, ScramFault> {
        let mut ours = [0; NONCE_BYTES];
        SystemRandom::new().fill(&mut ours).expect("the system gives random numbers");
        Self::begin_with(verifier, channel, client_first, &STANDARD.encode(ours))
    }

    /// As [`begin`](Self::begin), with our part of the nonce given.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn begin_with(
        verifier: Verifier,
        channel: &Channel,
        client_first: &str,
        ours: &str,
    ) -> Result<Self, ScramFault> {
        let mut parts = client_first.splitn(3, ',');
        let (Some(flag), Some(identity), Some(bare)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(ScramFault::Malformed);
        };
        let digest: &[u8] = match (flag, channel) {
            ("n", Channel::Unbindable | Channel::Unbound) | ("y", Channel::Unbindable) => &[],
            ("y", Channel::Unbound) => return Err(ScramFault::Downgraded),
            (BINDING, Channel::Bound(digest)) => digest,
            (flag, _) if flag.starts_with("p=") => return Err(ScramFault::ChannelBinding),
            _ => return Err(ScramFault::Malformed),
        };
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
        let salt = STANDARD.encode(verifier.salt());
        let server_first = format!("r={nonce},s={salt},i={}", verifier.iterations());
        let binding = format!("c={}", STANDARD.encode([flag.as_bytes(), b",,", digest].concat()));
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
        let proof = proof.try_into().map_err(|_| ScramFault::Malformed)?;
        let mut attributes = without_proof.split(',');
        let binding = attributes.next().ok_or(ScramFault::Malformed)?;
        let nonce = attributes.next().and_then(|nonce| nonce.strip_prefix("r="));
        if nonce != Some(self.nonce.as_str()) {
            return Err(ScramFault::Malformed);
        }
        if binding != self.binding {
            return Err(ScramFault::OtherChannel);
        }
        let all = format!("{},{},{without_proof}", self.client_first_bare, self.server_first);
        let signature = self.verifier.answer(all.as_bytes(), &proof).ok_or(ScramFault::WrongProof)?;
        Ok(format!("v={}", STANDARD.encode(signature)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, section 3: user `user`, password `pencil`.
    fn example() -> Verifier {
        Verifier::salted("pencil", STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap())
    }

    const OURS: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const LAST: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

    fn exchange() -> Exchange {
        Exchange::begin_with(example(), &Channel::Unbindable, "n,,n=user,r=rOprNGfwEbeRWgbNEkqO", OURS)
            .unwrap()
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
        assert_eq!(exchange().finish(&LAST.replace("c=biws", "c=eSws")), Err(ScramFault::OtherChannel));
        assert_eq!(exchange().finish("p="), Err(ScramFault::Malformed));
        let (nobody, first) = (Verifier::of_nobody("x", &[7; 32]), "n,,n=,r=rOprNGfwEbeRWgbNEkqO");
        let nobody = Exchange::begin_with(nobody, &Channel::Unbindable, first, OURS);
        assert_eq!(nobody.unwrap().finish(LAST), Err(ScramFault::WrongProof));
    }

    #[test]
    fn first_messages_that_make_no_sense_are_refused() {
        for message in ["", "n,,", "n,a=other,n=,r=x", "q,,n=,r=x", "n,,r=x", "n,,n=,r=", "n,,m=1,n=,r=x"] {
            let refused = Exchange::begin(example(), &Channel::Unbindable, message).unwrap_err();
            assert_eq!(refused, ScramFault::Malformed, "{message}");
        }
    }

    #[test]
    fn a_client_binds_to_the_certificate_that_it_was_shown_or_says_that_it_cannot() {
        let ours = Channel::Bound([1, 2, 3].as_slice().into());
        let begin = |channel: &Channel, flag: &str| {
            Exchange::begin(example(), channel, &format!("{flag},,n=,r=x")).map(|_| ())
        };
        for (channel, flag, expected) in [
            (&ours, "p=tls-server-end-point", Ok(())),
            (&ours, "p=tls-unique", Err(ScramFault::ChannelBinding)),
            (&ours, "n", Err(ScramFault::Malformed)),
            (&ours, "y", Err(ScramFault::Malformed)),
            (&Channel::Unbound, "n", Ok(())),
            (&Channel::Unbound, "y", Err(ScramFault::Downgraded)),
            (&Channel::Unbound, "p=tls-server-end-point", Err(ScramFault::ChannelBinding)),
            (&Channel::Unbindable, "n", Ok(())),
            (&Channel::Unbindable, "y", Ok(())),
            (&Channel::Unbindable, "p=tls-server-end-point", Err(ScramFault::ChannelBinding)),
        ] {
            assert_eq!(begin(channel, flag), expected, "{flag} on {channel:?}");
        }
        let first = "p=tls-server-end-point,,n=,r=x";
        let exchange = Exchange::begin_with(example(), &ours, first, "y").unwrap();
        let last = |digest: &[u8]| {
            let bound = STANDARD.encode([&b"p=tls-server-end-point,,"[..], digest].concat());
            exchange.finish(&format!("c={bound},r=xy,p={}", STANDARD.encode([0; 32])))
        };
        assert_eq!(last(&[9, 9, 9]), Err(ScramFault::OtherChannel));
        assert_eq!(last(&[1, 2, 3]), Err(ScramFault::WrongProof), "the channel is right");
    }

    #[test]
    fn channel_binding_is_offered_where_there_is_a_certificate() {
        let plain = Mechanisms::default();
        assert_eq!(plain.names(), ["SCRAM-SHA-256"]);
        assert_eq!(plain.chosen(b"SCRAM-SHA-256"), Some(Channel::Unbindable));
        assert_eq!(plain.chosen(b"SCRAM-SHA-256-PLUS"), None);
        let digest: Arc<[u8]> = [1].as_slice().into();
        let encrypted = Mechanisms::new(Some(Arc::clone(&digest)));
        assert_eq!(encrypted.names(), ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"]);
        assert_eq!(encrypted.chosen(b"SCRAM-SHA-256"), Some(Channel::Unbound));
        assert_eq!(encrypted.chosen(b"SCRAM-SHA-256-PLUS"), Some(Channel::Bound(digest)));
        assert_eq!(encrypted.chosen(b"MD5"), None);
    }
}
