// SPDX-License-Identifier: Apache-2.0
//! Who may come from where and how, in the words of PostgreSQL's `pg_hba.conf`.
//!
//! ```text
//! # kind    database  user         address         method
//! hostssl   all       app,+staff   10.0.0.0/8      scram-sha-256
//! host      all       all          127.0.0.1/32    trust
//! host      all       all          all             reject
//! hostssl   all       robot        all             cert
//! ```
//! The first line that fits a connection decides; a connection that none fits is refused.

mod parse;

use crate::tls::ClientCertificate;
use std::net::IpAddr;

/// Whether a connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// Others on the way can read it.
    None,
    /// By TLS.
    Tls,
}

/// What the server offers to connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// No encryption.
    Plain,
    /// TLS, in which the server proves who it is.
    Tls,
    /// TLS, in which clients can do so, too.
    TlsWithClientCertificates,
}

/// The connections that a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// `host`
    Any,
    /// `hostssl`
    Encrypted,
    /// `hostnossl`
    Unencrypted,
}

/// A database that a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum DatabaseRule {
    All,
    SameUser,
    SameRole,
    /// `replication`, which is not the database of that name.
    Replication,
    Named(Box<str>),
}

/// A user that a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum UserRule {
    All,
    /// `+name`: the members of a role, and itself.
    MemberOf(Box<str>),
    Named(Box<str>),
}

/// The addresses that a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AddressRule {
    All,
    /// Those that have these bits where the mask, which is of the same family, has ones.
    Network {
        bits: u128,
        mask: u128,
        family: Family,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Family {
    /// The family and the bits of an address.
    fn of(address: IpAddr) -> (Self, u128) {
        match address {
            IpAddr::V4(address) => (Self::V4, u128::from(address.to_bits())),
            IpAddr::V6(address) => (Self::V6, address.to_bits()),
        }
    }

    fn width(self) -> u32 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }
}

/// What somebody has to do whom a rule fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// Nothing.
    Trust,
    /// Go away.
    Reject,
    /// Prove the password by SCRAM-SHA-256.
    Password,
    /// Have a certificate, as [`CertificateRule::OfUser`] says.
    Certificate,
}

/// The certificate that somebody has to have whom a rule fits: `clientcert`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CertificateRule {
    /// None.
    NotNeeded,
    /// `verify-ca`: one that an authority vouches for.
    Verified,
    /// `verify-full`: such a one that names the user.
    OfUser,
}

/// All that somebody has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Requirement {
    pub(crate) method: Method,
    pub(crate) certificate: CertificateRule,
}

/// One line.
#[derive(Clone, Debug)]
struct Rule {
    line: usize,
    kind: Kind,
    databases: Vec<DatabaseRule>,
    users: Vec<UserRule>,
    address: AddressRule,
    requirement: Requirement,
}

/// Whether the first name is a member of the role of the second one.
pub(crate) type IsMember<'a> = &'a dyn Fn(&str, &str) -> bool;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Statements.
    Session,
    /// To follow the log: no rule about databases is about it, not even one about all.
    Replication,
}

/// A connection as rules see it.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'a> {
    pub(crate) purpose: Purpose,
    pub(crate) user: &'a str,
    pub(crate) database: &'a str,
    pub(crate) address: IpAddr,
    pub(crate) encryption: Encryption,
    pub(crate) certificate: Option<&'a ClientCertificate>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    rules: Vec<Rule>,
}

impl Rules {
    /// What the first rule that fits demands; `None` if none does.
    pub(crate) fn requirement(&self, caller: &Caller<'_>, is_member: IsMember<'_>) -> Option<Requirement> {
        self.rules.iter().find(|rule| rule.fits(caller, is_member)).map(|rule| rule.requirement)
    }

    /// The numbers of the lines that demand certificates of clients.
    pub(crate) fn lines_for_client_certificates(&self) -> impl Iterator<Item = usize> {
        let demands = |rule: &&Rule| rule.requirement.certificate != CertificateRule::NotNeeded;
        self.rules.iter().filter(demands).map(|rule| rule.line)
    }

    /// The numbers of the lines that can fit nobody as long as there is no certificate.
    pub(crate) fn lines_for_tls(&self) -> impl Iterator<Item = usize> {
        self.rules.iter().filter(|rule| rule.kind == Kind::Encrypted).map(|rule| rule.line)
    }
}

impl Rule {
    fn fits(&self, caller: &Caller<'_>, is_member: IsMember<'_>) -> bool {
        let fits_kind = match self.kind {
            Kind::Any => true,
            Kind::Encrypted => caller.encryption == Encryption::Tls,
            Kind::Unencrypted => caller.encryption == Encryption::None,
        };
        fits_kind
            && self.address.fits(caller.address)
            && self.databases.iter().any(|database| database.fits(caller, is_member))
            && self.users.iter().any(|user| user.fits(caller.user, is_member))
    }
}

impl AddressRule {
    fn fits(self, address: IpAddr) -> bool {
        match self {
            Self::All => true,
            Self::Network { bits, mask, family } => {
                let (theirs, address) = Family::of(address.to_canonical());
                theirs == family && address & mask == bits & mask
            }
        }
    }
}

impl DatabaseRule {
    fn fits(&self, caller: &Caller<'_>, is_member: IsMember<'_>) -> bool {
        if caller.purpose == Purpose::Replication {
            return *self == Self::Replication;
        }
        match self {
            Self::All => true,
            Self::SameUser => caller.database == caller.user,
            Self::SameRole => is_role_or_member(caller.user, caller.database, is_member),
            Self::Replication => false,
            Self::Named(name) => **name == *caller.database,
        }
    }
}

impl UserRule {
    fn fits(&self, user: &str, is_member: IsMember<'_>) -> bool {
        match self {
            Self::All => true,
            Self::MemberOf(role) => is_role_or_member(user, role, is_member),
            Self::Named(name) => **name == *user,
        }
    }
}

fn is_role_or_member(user: &str, role: &str, is_member: IsMember<'_>) -> bool {
    user == role || is_member(user, role)
}

#[cfg(test)]
mod tests;
