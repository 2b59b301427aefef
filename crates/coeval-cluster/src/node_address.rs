// SPDX-License-Identifier: Apache-2.0
//! [`NodeAddress`]: where a node is reached.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// Names of hosts have no more letters (RFC 1035).
const HOST_BYTES_MAX: usize = 253;

/// Where a node is reached: `host:port`, with a name or an address (`[::1]:7001` for IPv6). With TLS, the host is what the
/// node's certificate has to name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeAddress {
    /// In lower case, without brackets.
    host: String,
    port: u16,
}

/// Why a text is no address of a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is no address of a node, as in n1.example:7001: {what}")]
pub struct NodeAddressError {
    text: String,
    what: &'static str,
}

impl NodeAddress {
    /// The name or address, without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for NodeAddress {
    type Err = NodeAddressError;

    fn from_str(text: &str) -> Result<Self, NodeAddressError> {
        let refuse = |what| NodeAddressError { text: text.to_owned(), what };
        let (host, port) = text.rsplit_once(':').ok_or_else(|| refuse("it has no port"))?;
        let port = match port.parse() {
            Ok(0) | Err(_) => return Err(refuse("its port is not a number from 1 to 65535")),
            Ok(port) => port,
        };
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_named = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        let host = match bracketed {
            Some(host) if host.parse::<Ipv6Addr>().is_ok() => host,
            Some(_) => return Err(refuse("what stands in brackets is no IPv6 address")),
            None if host.is_empty() => return Err(refuse("it has no host")),
            None if host.contains(':') => return Err(refuse("an IPv6 address stands in brackets")),
            None if host.len() > HOST_BYTES_MAX => {
                return Err(refuse("its host is longer than names may be"));
            }
            None if !host.chars().all(is_named) => return Err(refuse("its host is no name")),
            None => host,
        };
        Ok(Self { host: host.to_ascii_lowercase(), port })
    }
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_as_it_is_read() {
        for (text, host, port) in [
            ("n1.example:7001", "n1.example", 7001),
            ("127.0.0.2:1", "127.0.0.2", 1),
            ("[::1]:65535", "::1", 65535),
        ] {
            let address: NodeAddress = text.parse().unwrap();
            assert_eq!((address.host(), address.port(), address.to_string()), (host, port, text.to_owned()));
        }
        // Names are the same in whatever case they are written.
        assert_eq!("N1.Example:7001".parse::<NodeAddress>(), "n1.example:7001".parse());
    }

    #[test]
    fn a_name_has_253_letters_at_most() {
        let address = |letters| format!("{}:1", "n".repeat(letters)).parse::<NodeAddress>();
        assert!(address(253).is_ok() && address(254).is_err());
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_reason() {
        for (text, what) in [
            ("n1.example", "no port"),
            ("n1.example:0", "from 1 to 65535"),
            ("n1.example:70000", "from 1 to 65535"),
            (":7001", "no host"),
            ("::1:7001", "stands in brackets"),
            ("[n1]:7001", "no IPv6 address"),
            ("http://n1:7001", "stands in brackets"),
            ("n 1:7001", "no name"),
        ] {
            let message = text.parse::<NodeAddress>().unwrap_err().to_string();
            assert!(message.contains(what) && message.contains(text), "{text}: {message}");
        }
    }
}
