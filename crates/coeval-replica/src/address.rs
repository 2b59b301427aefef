// SPDX-License-Identifier: Apache-2.0
//! Where the primary is, and as whom to go there: libpq's words.

use crate::error::ReplicaError;
use std::fmt;
use std::path::PathBuf;

/// The port of PostgreSQL.
const DEFAULT_PORT: u16 = 5432;

/// Whether the connection is encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsMode {
    /// It is not: for a primary that is reached over the loopback, or a network that nobody else is in.
    Disable,
    /// It is, and the primary proves who it is by a certificate for its host name, of an authority in this file.
    VerifyFull(PathBuf),
}

/// Where the primary is, and as whom to go there.
#[derive(Clone, PartialEq, Eq)]
pub struct PrimaryAddress {
    /// A name or an address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// A role with REPLICATION.
    pub user: String,
    /// Its password, if it has one.
    pub password: Option<String>,
    /// Whether the connection is encrypted.
    pub tls: TlsMode,
    /// What the primary shows of this replica.
    pub application_name: String,
    /// The slot by which it follows: the primary keeps the log for it while it is away.
    pub slot: Option<String>,
}

impl fmt::Debug for PrimaryAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrimaryAddress({self}, user {})", self.user)
    }
}

impl fmt::Display for PrimaryAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl PrimaryAddress {
    /// Reads `host=... port=... user=...`, with spaces or commas between. Known are `host`, `port`, `user`, `password`,
    /// `sslmode` (`disable`, `verify-full`), `sslrootcert`, `application_name` and `slot`.
    ///
    /// # Errors
    /// [`ReplicaError::Address`].
    pub fn parse(text: &str) -> Result<Self, ReplicaError> {
        let mut address = Self {
            host: String::new(),
            port: DEFAULT_PORT,
            user: String::new(),
            password: None,
            tls: TlsMode::Disable,
            application_name: "coeval-replica".to_owned(),
            slot: None,
        };
        let (mut mode, mut authorities) = (None, None);
        let shown = without_password(text);
        let refuse = |what: String| ReplicaError::Address { text: shown.clone(), what };
        for word in text.split([' ', ',', '\t', '\n']).filter(|word| !word.is_empty()) {
            let (name, value) =
                word.split_once('=').ok_or_else(|| refuse(format!("\"{word}\" is no name=value")))?;
            match name {
                "host" => value.clone_into(&mut address.host),
                "port" => {
                    address.port = value.parse().map_err(|_| refuse(format!("\"{value}\" is no port")))?;
                }
                "user" => value.clone_into(&mut address.user),
                "password" => address.password = Some(value.to_owned()),
                "application_name" => value.clone_into(&mut address.application_name),
                "slot" => address.slot = Some(value.to_owned()),
                "sslmode" => mode = Some(value),
                "sslrootcert" => authorities = Some(PathBuf::from(value)),
                _ => return Err(refuse(format!("\"{name}\" is not known"))),
            }
        }
        if address.host.is_empty() || address.user.is_empty() {
            return Err(refuse("host and user are needed, as in host=db1,user=copy".to_owned()));
        }
        address.tls = match (mode, authorities) {
            (None | Some("verify-full"), Some(file)) => TlsMode::VerifyFull(file),
            (None | Some("disable"), None) => TlsMode::Disable,
            (Some("disable"), Some(_)) => {
                return Err(refuse("sslrootcert is of no use without TLS".to_owned()));
            }
            (Some("verify-full"), None) => {
                return Err(refuse("sslmode=verify-full needs sslrootcert=FILE".to_owned()));
            }
            (Some(other), _) => {
                return Err(refuse(format!("sslmode={other} is not known: disable or verify-full")));
            }
        };
        Ok(address)
    }
}

/// For messages.
pub(crate) fn without_password(text: &str) -> String {
    let words = text.split([' ', ',']).filter(|word| !word.starts_with("password="));
    words.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_with_commas_or_spaces() {
        let address = PrimaryAddress::parse("host=db1,port=6432 user=copy,password=secret").unwrap();
        assert_eq!(address.to_string(), "db1:6432");
        assert_eq!((address.user.as_str(), address.password.as_deref()), ("copy", Some("secret")));
        assert_eq!(address.tls, TlsMode::Disable);
        assert!(!format!("{address:?}").contains("secret"));
        let address = PrimaryAddress::parse("host=db1 user=copy sslrootcert=ca.crt").unwrap();
        assert_eq!((address.port, address.tls), (5432, TlsMode::VerifyFull("ca.crt".into())));
    }

    #[test]
    fn what_is_wrong_is_said_and_no_password() {
        let wrong = [
            ("user=copy", "host and user are needed"),
            ("host=a,user=b,port=x", "\"x\" is no port"),
            ("host=a,user=b,color=red", "\"color\" is not known"),
            ("host=a,user=b,sslmode=prefer", "sslmode=prefer is not known"),
            ("host=a,user=b,sslmode=verify-full", "needs sslrootcert"),
            ("host=a,user=b,password=secret,here", "\"here\" is no name=value"),
        ];
        for (text, what) in wrong {
            let message = PrimaryAddress::parse(text).unwrap_err().to_string();
            assert!(message.contains(what) && !message.contains("secret"), "{text}: {message}");
        }
    }
}
