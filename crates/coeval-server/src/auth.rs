// SPDX-License-Identifier: Apache-2.0
//! Who may open a session: roles and their passwords.
//!
//! Without roles of the server's own, whoever connects over the loopback is trusted under whatever name, and nobody
//! else is let in. With them, everyone proves by SCRAM-SHA-256 (RFC 5802, RFC 7677), which shows the password neither
//! on the way nor to who reads our memory, to be one of them or a role of the catalog.
//!
//! The server's own roles may do everything, and so may whoever is trusted under a name that is no role of the
//! catalog. A role of the catalog has the rights that were granted to it.

pub(crate) mod scram;

use coeval::RoleDef;
use coeval_sql::{Standing, Verifier};
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::time::SystemTime;

/// The roles that may open sessions.
#[derive(Clone, Default)]
pub struct Roles {
    verifiers: HashMap<String, Verifier>,
}

impl Roles {
    /// No roles: the loopback is trusted.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same and this role. The password is as it is typed, or PostgreSQL's `SCRAM-SHA-256$...` made of it.
    ///
    /// # Panics
    /// If the system gives no random numbers.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, password: &str) -> Self {
        let verifier = Verifier::parse(password).unwrap_or_else(|| Verifier::of_password(password));
        self.verifiers.insert(name.into(), verifier);
        self
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.verifiers.is_empty()
    }

    /// What somebody at this address has to do to be this role, whom the catalog may know.
    pub(crate) fn demand(&self, name: &str, address: IpAddr, known: Option<&RoleDef>) -> Demand {
        if self.is_empty() {
            let standing = if known.is_some() { Standing::Role } else { Standing::Administrator };
            return if address.to_canonical().is_loopback() {
                Demand::Nothing(standing)
            } else {
                Demand::Refused
            };
        }
        if let Some(verifier) = self.verifiers.get(name) {
            return Demand::Password(verifier.clone(), Standing::Administrator);
        }
        let now = now_micros();
        let valid = known.filter(|role| role.valid_until.is_none_or(|until| now < until));
        let verifier = valid.and_then(|role| Verifier::parse(role.verifier.as_deref()?));
        Demand::Password(verifier.unwrap_or_else(|| Verifier::of_nobody(name)), Standing::Role)
    }
}

/// Microseconds since 1970-01-01 UTC.
fn now_micros() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

impl fmt::Debug for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.verifiers.keys()).finish()
    }
}

/// What somebody has to do to open a session.
#[derive(Debug)]
pub(crate) enum Demand {
    /// Nothing; it has this standing then.
    Nothing(Standing),
    /// It is not let in, whatever it does.
    Refused,
    /// Prove that it knows the password. That of somebody we do not know cannot be proven, and takes as long.
    Password(Verifier, Standing),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_roles_only_the_loopback_is_trusted() {
        let roles = Roles::new();
        let demand = |address: &str| roles.demand("me", address.parse().unwrap(), None);
        for address in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert!(matches!(demand(address), Demand::Nothing(Standing::Administrator)), "{address}");
        }
        assert!(matches!(demand("10.0.0.1"), Demand::Refused));
        let role = RoleDef::new("me");
        let known = roles.demand("me", "127.0.0.1".parse().unwrap(), Some(&role));
        assert!(matches!(known, Demand::Nothing(Standing::Role)), "trusted, with the rights of its role");
    }

    #[test]
    fn with_roles_everyone_needs_a_password() {
        let roles = Roles::new().with("me", "secret");
        let demand = |name: &str, known: Option<&RoleDef>| match roles.demand(
            name,
            "127.0.0.1".parse().unwrap(),
            known,
        ) {
            Demand::Password(verifier, standing) => (verifier, standing),
            other => panic!("{other:?}"),
        };
        assert_eq!(demand("me", None).1, Standing::Administrator);
        assert_eq!(demand("nobody", None).1, Standing::Role);
        let verifier = Verifier::of_password("pencil");
        let mut clerk = RoleDef { verifier: Some(verifier.to_text()), ..RoleDef::new("clerk") };
        assert!(demand("clerk", Some(&clerk)) == (verifier.clone(), Standing::Role));
        clerk.valid_until = Some(0);
        assert!(demand("clerk", Some(&clerk)).0 != verifier, "the password is valid no more");
        let me = RoleDef { verifier: Some(verifier.to_text()), ..RoleDef::new("me") };
        let (own, standing) = demand("me", Some(&me));
        assert!(own != verifier && standing == Standing::Administrator, "the server's own word counts");
    }
}
