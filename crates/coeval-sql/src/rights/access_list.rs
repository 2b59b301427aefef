// SPDX-License-Identifier: Apache-2.0
//! Access lists as PostgreSQL shows them: `{owner=arwdDxt/owner,clerk=r/owner,=r/owner}`.

use super::Kind;
use crate::quoting::quoted;
use crate::relations::CATALOG_NAME;
use coeval_store::{Grant, ObjectAccess, Privilege, Privileges};

/// The privileges that there are on columns of tables, and what ALL means there.
pub(crate) const COLUMN_PRIVILEGES: [Privilege; 4] =
    [Privilege::Insert, Privilege::Select, Privilege::Update, Privilege::References];

/// The privileges that there are on objects of a kind: what ALL means, and what the owner has.
pub(crate) fn all_privileges(kind: Kind) -> Privileges {
    match kind {
        Kind::Table | Kind::View | Kind::Index => Privileges::of(&[
            Privilege::Insert,
            Privilege::Select,
            Privilege::Update,
            Privilege::Delete,
            Privilege::Truncate,
            Privilege::References,
            Privilege::Trigger,
        ]),
        Kind::Sequence => Privileges::of(&[Privilege::Select, Privilege::Update, Privilege::Usage]),
        Kind::Schema => Privileges::of(&[Privilege::Usage, Privilege::Create]),
        Kind::Type | Kind::Server => Privileges::of(&[Privilege::Usage]),
    }
}

/// The entries of an object's access list, its owner's first; `None` if nothing was ever granted.
pub(crate) fn access_list(kind: Kind, access: &ObjectAccess) -> Option<Vec<String>> {
    if access.grants.is_empty() {
        return None;
    }
    let own = Grant {
        grantee: Some(access.owner.clone().unwrap_or_else(|| CATALOG_NAME.to_owned())),
        grantor: access.owner.clone(),
        privileges: all_privileges(kind),
        grantable: Privileges::NONE,
    };
    Some(std::iter::once(&own).chain(&access.grants).map(entry).collect())
}

/// The entries of grants alone.
pub(crate) fn entries(grants: &[Grant]) -> Vec<String> {
    grants.iter().map(entry).collect()
}

fn entry(grant: &Grant) -> String {
    let grantee = grant.grantee.as_deref().map(quoted).unwrap_or_default();
    let letters: String = (grant.privileges.iter())
        .flat_map(|privilege| {
            let star = grant.grantable.contains(privilege).then_some('*');
            std::iter::once(privilege.letter()).chain(star)
        })
        .collect();
    let grantor = quoted(grant.grantor.as_deref().unwrap_or(CATALOG_NAME));
    format!("{grantee}={letters}/{grantor}")
}
