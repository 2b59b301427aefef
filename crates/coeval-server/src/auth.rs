// SPDX-License-Identifier: Apache-2.0
//! Who may open a session: roles and their passwords.
//!
//! Without roles of the server's own, whoever connects over the loopback is trusted under whatever name, and nobody
//! else is let in. With them, everyone proves by SCRAM-SHA-256 (RFC 5802, RFC 7677), which shows the password neither
//! on the way nor to who reads our memory, to be one of them or a role of the catalog.
//!
//! Rules, where there are any, take the place of that: see [`rules`].
//!
//! The server's own roles may do everything, and so may whoever is trusted under a name that is no role of the
//! catalog. A role of the catalog has the rights that were granted to it.

mod admission;
mod mock_secret;
pub(crate) mod rules;
pub(crate) mod scram;
mod throttle;

pub(crate) use admission::Admission;
pub(crate) use throttle::GUESSED_SECRET;

use coeval::{RoleDef, SqlError};
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
    /// # Errors
    /// If it is a hash that cannot be used, such as one of MD5.
    ///
    /// # Panics
    /// If the system gives no random numbers.
    pub fn with(mut self, name: impl Into<String>, password: &str) -> Result<Self, SqlError> {
        self.verifiers.insert(name.into(), Verifier::of_text(password)?);
        Ok(self)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.verifiers.is_empty()
    }

    /// Whether there is one of this name.
    fn has(&self, name: &str) -> bool {
        self.verifiers.contains_key(name)
    }

    /// What somebody at this address has to do to be this role, whom the catalog may know, where there are no rules.
    fn demand(&self, name: &str, address: IpAddr, known: Option<&RoleDef>, mock_secret: &[u8]) -> Demand {
        if !self.is_empty() {
            return self.password_of(name, known, mock_secret);
        }
        let standing = if known.is_some() { Standing::Role } else { Standing::Administrator };
        if address.to_canonical().is_loopback() {
            Demand::Nothing(standing)
        } else {
            Demand::Refused(format!("connections from {address} need a password, and no role has one"))
        }
    }

    /// The password of this role, whom the catalog may know.
    fn password_of(&self, name: &str, known: Option<&RoleDef>, mock_secret: &[u8]) -> Demand {
        if let Some(verifier) = self.verifiers.get(name) {
            return Demand::Password(verifier.clone(), Standing::Administrator);
        }
        let now = now_micros();
        let valid = known.filter(|role| role.valid_until.is_none_or(|until| now < until));
        let verifier = valid.and_then(|role| Verifier::parse(role.verifier.as_deref()?));
        let nobody = || Verifier::of_nobody(name, mock_secret);
        Demand::Password(verifier.unwrap_or_else(nobody), Standing::Role)
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
    /// It is not let in, whatever it does, and told why.
    Refused(String),
    /// Prove that it knows the password. That of somebody we do not know cannot be proven, and takes as long.
    Password(Verifier, Standing),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_roles_only_the_loopback_is_trusted() {
        let roles = Roles::new();
        let demand = |address: &str| roles.demand("me", address.parse().unwrap(), None, b"");
        for address in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert!(matches!(demand(address), Demand::Nothing(Standing::Administrator)), "{address}");
        }
        assert!(matches!(demand("10.0.0.1"), Demand::Refused(_)));
        let role = RoleDef::new("me");
        let known = roles.demand("me", "127.0.0.1".parse().unwrap(), Some(&role), b"");
        assert!(matches!(known, Demand::Nothing(Standing::Role)), "trusted, with the rights of its role");
    }

    #[test]
    fn with_roles_everyone_needs_a_password() {
        let roles = Roles::new().with("me", "secret").unwrap();
        let address = "127.0.0.1".parse().unwrap();
        let demand = |name: &str, known: Option<&RoleDef>| match roles.demand(name, address, known, b"") {
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
