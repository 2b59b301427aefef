// SPDX-License-Identifier: Apache-2.0
//! What a client has to do to get a session: by the rules, if there are any, else by where it comes from.

use super::rules::{Caller, Encryption, Method, Rules};
use super::throttle::Throttle;
use super::{Demand, Roles, mock_secret};
use crate::error::ServerError;
use coeval_sql::{Engine, Standing};
use parking_lot::RwLock;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// See the module.
///
/// # Locking
/// `rules` is a leaf: it is read for as long as the handle in it takes to be copied.
pub(crate) struct Admission {
    roles: Roles,
    file: Option<PathBuf>,
    /// What the server offers.
    offered: Encryption,
    rules: RwLock<Option<Arc<Rules>>>,
    /// What the salts of those are made of who have no password.
    mock_secret: [u8; mock_secret::BYTES],
    pub(crate) throttle: Throttle,
}

fn read(file: &Path, encryption: Encryption) -> Result<Rules, ServerError> {
    let failed = |error: &dyn std::fmt::Display| ServerError::Rules(format!("{}: {error}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| failed(&error))?;
    let rules = Rules::parse(&text).map_err(|error| failed(&error))?;
    if encryption == Encryption::None {
        for line in rules.lines_for_tls() {
            let file = file.display();
            tracing::warn!(%file, line, "hostssl fits nobody: the server has no certificate");
        }
    }
    Ok(rules)
}

impl Admission {
    /// # Errors
    /// If there is a file with rules and it cannot be used, or one with a secret.
    pub(crate) fn new(
        roles: Roles,
        file: Option<PathBuf>,
        mock_secret_file: Option<&Path>,
        offered: Encryption,
    ) -> Result<Self, ServerError> {
        let rules = file.as_deref().map(|file| read(file, offered)).transpose()?;
        Ok(Self {
            roles,
            file,
            offered,
            rules: RwLock::new(rules.map(Arc::new)),
            mock_secret: mock_secret::of(mock_secret_file)?,
            throttle: Throttle::default(),
        })
    }

    /// Whether somebody from another machine has to prove anything, or the rules say otherwise.
    pub(crate) fn protects(&self) -> bool {
        !self.roles.is_empty() || self.file.is_some()
    }

    /// Reads the rules again, if they are in a file. Those from before stay if it cannot be used.
    pub(crate) fn reload(&self) {
        let Some(file) = &self.file else { return };
        match read(file, self.offered) {
            Ok(rules) => {
                *self.rules.write() = Some(Arc::new(rules));
                tracing::info!(file = %file.display(), "the rules were read again");
            }
            Err(error) => tracing::error!(%error, "the rules stay as they were"),
        }
    }

    /// What a client has to do.
    pub(crate) fn demand(&self, caller: &Caller<'_>, engine: &Engine) -> Demand {
        let known = engine.role(caller.user);
        let rules = self.rules.read().clone();
        let Some(rules) = rules else {
            return self.roles.demand(caller.user, caller.address, known.as_deref(), &self.mock_secret);
        };
        match rules.method(caller, &|name, role| engine.is_member(name, role)) {
            Some(Method::Trust) => match &known {
                Some(_) if !self.roles.has(caller.user) => Demand::Nothing(Standing::Role),
                _ if self.roles.has(caller.user) || engine.is_administrator(caller.user) => {
                    Demand::Nothing(Standing::Administrator)
                }
                // Among rules, a name that is nobody's is no way to rights that nobody was given.
                _ => Demand::Refused(format!("role \"{}\" does not exist", caller.user)),
            },
            Some(Method::Password) => {
                self.roles.password_of(caller.user, known.as_deref(), &self.mock_secret)
            }
            Some(Method::Reject) => Demand::Refused(described("pg_hba.conf rejects connection for", caller)),
            None => Demand::Refused(described("no pg_hba.conf entry for", caller)),
        }
    }
}

fn described(what: &str, caller: &Caller<'_>) -> String {
    let encryption = match caller.encryption {
        Encryption::None => "no encryption",
        Encryption::Tls => "SSL encryption",
    };
    format!(
        "{what} host \"{}\", user \"{}\", database \"{}\", {encryption}",
        caller.address.to_canonical(),
        caller.user,
        caller.database,
    )
}
