// SPDX-License-Identifier: Apache-2.0
//! The server behind a URL: which one it is, and connections to it.

use super::connection::Connection;
use crate::error::BenchError;
use tokio_postgres::Config;

/// A server that answers.
pub(crate) struct Server {
    config: Config,
    name: String,
    durability: &'static str,
}

impl Server {
    /// The server behind a URL (`postgres://user@host:port/database`), asked who it is.
    ///
    /// # Errors
    /// If the URL cannot be read, or nobody answers.
    pub(crate) fn new(url: &str) -> Result<Self, BenchError> {
        let mut config: Config = url
            .parse()
            .map_err(|error| BenchError::Options(format!("{url} is no URL of a server: {error}")))?;
        config.application_name("coeval bench");
        let connection = Connection::open(&config)?;
        let name = name_of(&connection.query_text("SELECT version()")?);
        let mut settings = vec!["SHOW synchronous_commit"];
        if name.starts_with("postgresql") {
            settings.push("SHOW fsync");
        }
        let mut waits = true;
        for setting in settings {
            waits &= connection.query_text(setting)? == "on";
        }
        Ok(Self { config, name, durability: if waits { "fsync" } else { "none" } })
    }

    /// Which system it is, as reports call it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether its commits wait for the disk, as reports call it.
    pub(crate) fn durability(&self) -> &'static str {
        self.durability
    }

    /// How to connect to it.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// A new connection.
    pub(crate) fn connect(&self) -> Result<Connection, BenchError> {
        Connection::open(&self.config)
    }
}

/// `coeval 0.1.0`, `postgresql 15.14`: the name and number in what `version()` says.
fn name_of(version: &str) -> String {
    let after = |word: &str| {
        let (_, rest) = version.split_once(word)?;
        rest.split([' ', ')', ',']).find(|part| !part.is_empty())
    };
    match (after("Coeval "), after("PostgreSQL ")) {
        (Some(number), _) => format!("coeval {number}"),
        (None, Some(number)) => format!("postgresql {number}"),
        (None, None) => version.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_are_known_by_what_they_say() {
        assert_eq!(name_of("PostgreSQL 15.0 (Coeval 0.1.0) on a Rust engine, 64-bit"), "coeval 0.1.0");
        assert_eq!(name_of("PostgreSQL 15.14 (Debian 15.14-0) on x86_64, 64-bit"), "postgresql 15.14");
        assert_eq!(name_of("something else"), "something else");
    }

    #[test]
    fn a_url_that_is_none_is_refused_by_name() {
        let error = Server::new("not a url").err().expect("it is refused").to_string();
        assert!(error.starts_with("not a url is no URL"), "{error}");
    }
}
