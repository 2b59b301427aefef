// SPDX-License-Identifier: Apache-2.0
//! SCRAM-SHA-256, the server's side (RFC 5802, RFC 7677), without channel binding.
//!
//! ```text
//! client  n,,n=user,r=NONCE
//! server  r=NONCE+OURS,s=SALT,i=ITERATIONS
//! client  c=biws,r=NONCE+OURS,p=PROOF
//! server  v=SIGNATURE
//! ```
//! What is kept of the password is its [`Verifier`], which checks the proof.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use coeval_sql::Verifier;
use ring::rand::{SecureRandom, SystemRandom};

/// The mechanism's name.
pub(crate) const MECHANISM: &str = Verifier::MECHANISM;

const NONCE_BYTES: usize = 18;

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
        let mut ours = [0; NONCE_BYTES];
        SystemRandom::new().fill(&mut ours).expect("the system gives random numbers");
        Self::begin_with(verifier, client_first, &STANDARD.encode(ours))
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
        let salt = STANDARD.encode(verifier.salt());
        let server_first = format!("r={nonce},s={salt},i={}", verifier.iterations());
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
        let proof = proof.try_into().map_err(|_| ScramFault::Malformed)?;
        let mut attributes = without_proof.split(',');
        let binding = attributes.next().ok_or(ScramFault::Malformed)?;
        let nonce = attributes.next().and_then(|nonce| nonce.strip_prefix("r="));
        if binding != self.binding || nonce != Some(self.nonce.as_str()) {
            return Err(ScramFault::Malformed);
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
}
