// SPDX-License-Identifier: Apache-2.0
//! Who may open a session: roles and their passwords.
//!
//! Without any role, whoever connects over the loopback is trusted under whatever name, and nobody else is let in.
//! With roles, everyone proves to be one of them by SCRAM-SHA-256 (RFC 5802, RFC 7677), which shows the password
//! neither on the way nor to who reads our memory.

pub(crate) mod scram;

use scram::Verifier;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;

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

    /// What somebody at this address has to do to be this role.
    pub(crate) fn demand(&self, name: &str, address: IpAddr) -> Demand {
        if self.is_empty() {
            return if address.to_canonical().is_loopback() { Demand::Nothing } else { Demand::Refused };
        }
        match self.verifiers.get(name) {
            Some(verifier) => Demand::Password(verifier.clone()),
            None => Demand::Password(Verifier::of_nobody(name)),
        }
    }
}

impl fmt::Debug for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.verifiers.keys()).finish()
    }
}

/// What somebody has to do to open a session.
#[derive(Debug)]
pub(crate) enum Demand {
    /// Nothing.
    Nothing,
    /// It is not let in, whatever it does.
    Refused,
    /// Prove that it knows the password. That of somebody we do not know cannot be proven, and takes as long.
    Password(Verifier),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_roles_only_the_loopback_is_trusted() {
        let roles = Roles::new();
        let demand = |address: &str| roles.demand("me", address.parse().unwrap());
        assert!(matches!(demand("127.0.0.1"), Demand::Nothing));
        assert!(matches!(demand("::1"), Demand::Nothing));
        assert!(matches!(demand("::ffff:127.0.0.1"), Demand::Nothing));
        assert!(matches!(demand("10.0.0.1"), Demand::Refused));
    }

    #[test]
    fn with_roles_everyone_needs_a_password() {
        let roles = Roles::new().with("me", "secret");
        let demand = |name: &str| roles.demand(name, "127.0.0.1".parse().unwrap());
        assert!(matches!(demand("me"), Demand::Password(_)));
        assert!(matches!(demand("nobody"), Demand::Password(_)));
    }
}
