// SPDX-License-Identifier: Apache-2.0
//! What new objects are granted to others from the start, as ALTER DEFAULT PRIVILEGES says.

use crate::access_rights::ObjectAccess;
use serde::{Deserialize, Serialize};

/// The kinds of objects that there are default privileges for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NewObjects {
    /// Tables and views.
    Tables,
    /// Sequences.
    Sequences,
    /// Schemas.
    Schemas,
}

/// What the new objects of one kind are granted to others, if one role makes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefaultPrivileges {
    /// Of what.
    pub objects: NewObjects,
    /// In which schema; `None`: in all of them. A new object has the grants of both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// The owner is who makes the objects. All grants are its own.
    pub access: ObjectAccess,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access_rights::{Grant, Privilege, Privileges};

    #[test]
    fn default_privileges_are_read_as_they_were_written() {
        let mut access = ObjectAccess::owned_by(Some("boss"));
        access.grants.push(Grant {
            grantee: Some("clerk".to_owned()),
            grantor: Some("boss".to_owned()),
            privileges: Privileges::of(&[Privilege::Select]),
            grantable: Privileges::NONE,
        });
        let everywhere = DefaultPrivileges { objects: NewObjects::Tables, schema: None, access };
        let in_schema = DefaultPrivileges { schema: Some("sales".to_owned()), ..everywhere.clone() };
        for (defaults, schema) in [(everywhere, ""), (in_schema, "\"schema\":\"sales\",")] {
            let written = serde_json::to_string(&defaults).unwrap();
            let grants = r#"[{"grantee":"clerk","grantor":"boss","privileges":"r","grantable":""}]"#;
            let access = format!(r#"{{"owner":"boss","grants":{grants}}}"#);
            assert_eq!(written, format!(r#"{{"objects":"tables",{schema}"access":{access}}}"#));
            assert_eq!(serde_json::from_str::<DefaultPrivileges>(&written).unwrap(), defaults);
        }
    }
}
