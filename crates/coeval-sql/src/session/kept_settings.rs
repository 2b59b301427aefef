// SPDX-License-Identifier: Apache-2.0
//! What a session begins with because ALTER ROLE and ALTER DATABASE have kept it.

use super::Session;
use crate::rights::{Authority, Principal};
use coeval_store::{DefaultSetting, DefaultsReach};
use std::time::Instant;

/// Gives a session the settings that are kept for sessions of its user, as [`Session::configure_until`] does: those for sessions of all
/// roles, of the database, of its role, and of its role in the database, so that the last ones count.
///
/// What cannot be given any more, as a role that its user has ceased to be a member of, is left out, and the session has a notice of that:
/// who could not begin a session could not mend it.
pub fn begin_with_kept_settings(session: &mut Session, until: Instant) {
    let kept = kept_for(session.settings.authenticated(), &session.authority());
    for DefaultSetting { name, value } in kept {
        if let Err(error) = session.configure_until(&name, &value, until) {
            session.notices.push(error);
        }
    }
}

/// The settings in the order in which they are given.
fn kept_for(user: &Principal, authority: &Authority) -> Vec<DefaultSetting> {
    // The administrator has nothing of a role that happens to have the name.
    let role = user.role(authority).map(|role| role.name.as_str());
    let catalog = authority.seen().catalog();
    let roles = [None].into_iter().chain(role.map(Some));
    let reaches = [DefaultsReach::Server, DefaultsReach::Database];
    let kept = roles.flat_map(|role| reaches.map(|reach| catalog.session_defaults(role, reach)));
    kept.flatten().flat_map(|defaults| defaults.settings.iter().cloned()).collect()
}
