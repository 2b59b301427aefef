// SPDX-License-Identifier: Apache-2.0
//! The settings that sessions begin with, as ALTER ROLE ... SET and ALTER DATABASE ... SET say.

use serde::{Deserialize, Serialize};

/// Where sessions begin with settings. There is one database, so both mean the same sessions; they are kept apart as they were said,
/// and what is said of the database counts more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DefaultsReach {
    /// In all databases of the server.
    Server,
    /// In this database.
    Database,
}

/// A setting and its value, as they were given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefaultSetting {
    /// Its name as the catalog shows it.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// The settings that the sessions of one role, or of all of them, begin with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionDefaults {
    /// Whose sessions; `None`: those of all roles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Where.
    pub reach: DefaultsReach,
    /// The settings in the order in which they were first given, none of them twice.
    pub settings: Vec<DefaultSetting>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_defaults_are_read_as_they_were_written() {
        let settings = vec![DefaultSetting { name: "work_mem".to_owned(), value: "64MB".to_owned() }];
        let of_role =
            SessionDefaults { role: Some("clerk".to_owned()), reach: DefaultsReach::Server, settings };
        let of_all = SessionDefaults { role: None, reach: DefaultsReach::Database, ..of_role.clone() };
        let list = r#"[{"name":"work_mem","value":"64MB"}]"#;
        for (defaults, members) in
            [(of_role, r#""role":"clerk","reach":"server""#), (of_all, r#""reach":"database""#)]
        {
            let written = serde_json::to_string(&defaults).unwrap();
            assert_eq!(written, format!(r#"{{{members},"settings":{list}}}"#));
            assert_eq!(serde_json::from_str::<SessionDefaults>(&written).unwrap(), defaults);
        }
    }
}
