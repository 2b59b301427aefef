// SPDX-License-Identifier: Apache-2.0
//! What a client has to do to get a session: by the rules, if there are any, else by where it comes from.

use super::rules::{Caller, CertificateRule, Encryption, Method, Offer, Rules};
use super::throttle::Throttle;
use super::{Demand, Roles, mock_secret};
use crate::error::ServerError;
use coeval::RoleDef;
use coeval_sql::{Engine, Standing, Verifier};
use parking_lot::RwLock;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// See the module.
///
/// # Locking
/// `rules` is a leaf: it is read for as long as the handle in it takes to be copied.
pub(crate) struct Admission {
    roles: Roles,
    /// Where the rules are, or are looked for.
    file: Option<PathBuf>,
    /// What the server offers.
    offer: Offer,
    rules: RwLock<Option<Arc<Rules>>>,
    /// What the salts of those are made of who have no password.
    mock_secret: [u8; mock_secret::BYTES],
    pub(crate) throttle: Throttle,
}

fn read(file: &Path, offer: Offer) -> Result<Rules, ServerError> {
    let failed = |error: &dyn std::fmt::Display| ServerError::Rules(format!("{}: {error}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| failed(&error))?;
    let rules = Rules::parse(&text).map_err(|error| failed(&error))?;
    match offer {
        Offer::Plain => {
            for line in rules.lines_for_tls() {
                let file = file.display();
                tracing::warn!(%file, line, "hostssl fits nobody: the server has no certificate");
            }
        }
        Offer::Tls => {
            if let Some(line) = rules.lines_for_client_certificates().next() {
                let message = "client certificates can only be checked with those of the authorities that vouch for them";
                return Err(failed(&format_args!("line {line}: {message} (--tls-client-ca)")));
            }
        }
        Offer::TlsWithClientCertificates => {}
    }
    Ok(rules)
}

/// The rules of a file that need not be there.
fn read_if_there(file: &Path, offer: Offer) -> Result<Option<Rules>, ServerError> {
    // Where nobody can say whether it is there, the attempt to read it says why.
    if matches!(file.try_exists(), Ok(false)) {
        return Ok(None);
    }
    read(file, offer).map(Some)
}

impl Admission {
    /// With the rules of `file`, or of `own_file` if no `file` is named and that is there.
    ///
    /// # Errors
    /// If there is a file with rules and it cannot be used, or one with a secret.
    pub(crate) fn new(
        roles: Roles,
        file: Option<PathBuf>,
        own_file: Option<PathBuf>,
        mock_secret_file: Option<&Path>,
        offer: Offer,
        passwords_per_second: u32,
    ) -> Result<Self, ServerError> {
        let rules = match (&file, &own_file) {
            (Some(file), _) => Some(read(file, offer)?),
            (None, Some(own_file)) => read_if_there(own_file, offer)?,
            (None, None) => None,
        };
        Ok(Self {
            roles,
            file: file.or(own_file),
            offer,
            rules: RwLock::new(rules.map(Arc::new)),
            mock_secret: mock_secret::of(mock_secret_file)?,
            throttle: Throttle::new(passwords_per_second),
        })
    }

    /// Whether somebody from another machine has to prove anything, or the rules say otherwise.
    pub(crate) fn protects(&self) -> bool {
        !self.roles.is_empty() || self.rules.read().is_some()
    }

    /// Reads the rules again, if they are in a file, or have come to be in one. Those from before stay if it cannot be used, or is
    /// gone.
    pub(crate) fn reload(&self) {
        let Some(file) = &self.file else { return };
        let has_rules = self.rules.read().is_some();
        let found =
            if has_rules { read(file, self.offer).map(Some) } else { read_if_there(file, self.offer) };
        match found {
            Ok(Some(rules)) => {
                *self.rules.write() = Some(Arc::new(rules));
                tracing::info!(file = %file.display(), "the rules were read again");
            }
            Ok(None) => tracing::info!(file = %file.display(), "there are no rules: the file is not there"),
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
        let Some(requirement) = rules.requirement(caller, &|name, role| engine.is_member(name, role)) else {
            return Demand::Refused(described("no pg_hba.conf entry for", caller));
        };
        let names_user = match (requirement.certificate, caller.certificate) {
            (CertificateRule::NotNeeded, _) | (CertificateRule::Verified, Some(_)) => true,
            (CertificateRule::OfUser, Some(certificate)) => {
                certificate.common_name.as_deref() == Some(caller.user)
            }
            (CertificateRule::Verified | CertificateRule::OfUser, None) => {
                return Demand::Refused("connection requires a valid client certificate".to_owned());
            }
        };
        if !names_user {
            let named = caller.certificate.and_then(|certificate| certificate.common_name.as_deref());
            tracing::info!(user = caller.user, named, "the client's certificate names somebody else");
        }
        let user = caller.user;
        match requirement.method {
            Method::Trust if !names_user => {
                Demand::Refused(format!("\"trust\" authentication failed for user \"{user}\""))
            }
            Method::Certificate if !names_user => {
                Demand::Refused(format!("certificate authentication failed for user \"{user}\""))
            }
            // What nobody can prove is asked for, so that whoever has a wrong certificate learns nothing of the password.
            Method::Password if !names_user => {
                Demand::Password(Verifier::of_nobody(user, &self.mock_secret), Standing::Role)
            }
            Method::Trust | Method::Certificate => self.trusted(user, known.as_deref(), engine),
            Method::Password => self.roles.password_of(user, known.as_deref(), &self.mock_secret),
            Method::Reject => Demand::Refused(described("pg_hba.conf rejects connection for", caller)),
        }
    }

    /// What somebody still has to do who is trusted to be this user, whom the catalog may know.
    fn trusted(&self, user: &str, known: Option<&RoleDef>, engine: &Engine) -> Demand {
        let is_own = self.roles.has(user);
        match known {
            Some(_) if !is_own => Demand::Nothing(Standing::Role),
            _ if is_own || engine.is_administrator(user) => Demand::Nothing(Standing::Administrator),
            // Among rules, a name that is nobody's is no way to rights that nobody was given.
            _ => Demand::Refused(format!("role \"{user}\" does not exist")),
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
