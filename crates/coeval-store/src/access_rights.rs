// SPDX-License-Identifier: Apache-2.0
//! Roles, and what they may do with objects.
//!
//! These are values like the other definitions: the store keeps them, in the world, the log and the manifest; who
//! may do what follows from them in the SQL layer. Names are what roles are known by: an object's owner and those
//! it is granted to are kept with its definition, by name.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// Something that a role may be allowed to do with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Privilege {
    /// Add rows.
    Insert,
    /// Read rows.
    Select,
    /// Change rows.
    Update,
    /// Remove rows.
    Delete,
    /// Remove all rows at once.
    Truncate,
    /// Refer to rows by a foreign key.
    References,
    /// Make triggers.
    Trigger,
    /// Use a sequence, or look into a schema.
    Usage,
    /// Make something in a schema.
    Create,
}

impl Privilege {
    /// All of them, in the order of PostgreSQL's access lists.
    pub const ALL: [Self; 9] = [
        Self::Insert,
        Self::Select,
        Self::Update,
        Self::Delete,
        Self::Truncate,
        Self::References,
        Self::Trigger,
        Self::Usage,
        Self::Create,
    ];

    /// Its letter in an access list.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Self::Insert => 'a',
            Self::Select => 'r',
            Self::Update => 'w',
            Self::Delete => 'd',
            Self::Truncate => 'D',
            Self::References => 'x',
            Self::Trigger => 't',
            Self::Usage => 'U',
            Self::Create => 'C',
        }
    }

    /// Its name in SQL.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Insert => "INSERT",
            Self::Select => "SELECT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Truncate => "TRUNCATE",
            Self::References => "REFERENCES",
            Self::Trigger => "TRIGGER",
            Self::Usage => "USAGE",
            Self::Create => "CREATE",
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// A set of privileges. It is written as the letters of its members, in the order of [`Privilege::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Privileges(u16);

impl Privileges {
    /// None.
    pub const NONE: Self = Self(0);

    /// The set of these privileges.
    #[must_use]
    pub fn of(privileges: &[Privilege]) -> Self {
        Self(privileges.iter().fold(0, |bits, privilege| bits | privilege.bit()))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether it is among them.
    #[must_use]
    pub fn contains(self, privilege: Privilege) -> bool {
        self.0 & privilege.bit() != 0
    }

    /// These and the others.
    #[must_use]
    pub fn union(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// These without the others.
    #[must_use]
    pub fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Those that are in both.
    #[must_use]
    pub fn intersection(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    /// Its members, in the order of [`Privilege::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Privilege> {
        Privilege::ALL.into_iter().filter(move |privilege| self.contains(*privilege))
    }
}

impl From<Privileges> for String {
    fn from(privileges: Privileges) -> Self {
        privileges.iter().map(Privilege::letter).collect()
    }
}

impl TryFrom<String> for Privileges {
    type Error = UnknownPrivilege;

    fn try_from(letters: String) -> Result<Self, UnknownPrivilege> {
        let mut privileges = Self::NONE;
        for letter in letters.chars() {
            let known = Privilege::ALL.into_iter().find(|privilege| privilege.letter() == letter);
            privileges = privileges.union(Self::of(&[known.ok_or(UnknownPrivilege(letter))?]));
        }
        Ok(privileges)
    }
}

/// A letter that stands for no privilege.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownPrivilege(char);

impl fmt::Display for UnknownPrivilege {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no privilege has the letter {:?}", self.0)
    }
}

impl std::error::Error for UnknownPrivilege {}

/// What one role was granted on an object by another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// To whom; `None`: to everyone.
    pub grantee: Option<String>,
    /// By whom; `None`: by the administrator, who is no role.
    pub grantor: Option<String>,
    /// What it may do.
    pub privileges: Privileges,
    /// What of that it may grant in turn.
    pub grantable: Privileges,
}

impl Grant {
    /// Adds it to a list, or to what the same one has granted the same role there.
    pub fn add_to(self, grants: &mut Vec<Self>) {
        let is_same = |known: &&mut Self| known.grantee == self.grantee && known.grantor == self.grantor;
        let known = grants.iter_mut().find(is_same);
        match known {
            Some(known) => {
                known.privileges = known.privileges.union(self.privileges);
                known.grantable = known.grantable.union(self.grantable);
            }
            None => grants.push(self),
        }
    }
}

/// What others may do with one column of a table or view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnGrants {
    /// Its place in the table or view.
    pub column: usize,
    /// What was granted, to each grantee by each grantor at most once.
    pub grants: Vec<Grant>,
}

/// Who an object belongs to, and what others may do with it. The owner may do everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectAccess {
    /// The owner; `None`: the administrator, who is no role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// What was granted, to each grantee by each grantor at most once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Grant>,
    /// What was granted on columns of a table or view, by their places; of no column twice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<ColumnGrants>,
}

impl ObjectAccess {
    /// What belongs to this role and was granted to nobody.
    #[must_use]
    pub fn owned_by(owner: Option<&str>) -> Self {
        Self { owner: owner.map(str::to_owned), ..Self::default() }
    }

    /// Whether it belongs to the administrator and was granted to nobody: what objects had before there were roles.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// What was granted on a column.
    #[must_use]
    pub fn of_column(&self, column: usize) -> &[Grant] {
        match self.columns.iter().find(|granted| granted.column == column) {
            Some(granted) => &granted.grants,
            None => &[],
        }
    }

    /// The same, to be changed.
    pub fn of_column_mut(&mut self, column: usize) -> &mut Vec<Grant> {
        let place = self.columns.binary_search_by_key(&column, |granted| granted.column);
        let place = place.unwrap_or_else(|place| {
            self.columns.insert(place, ColumnGrants { column, grants: Vec::new() });
            place
        });
        &mut self.columns[place].grants
    }

    /// All lists of grants: that of the object, and those of its columns.
    pub fn lists_mut(&mut self) -> impl Iterator<Item = &mut Vec<Grant>> {
        let of_columns = self.columns.iter_mut().map(|granted| &mut granted.grants);
        std::iter::once(&mut self.grants).chain(of_columns)
    }

    /// Keeps the grants that are wanted, but for those of no privilege.
    pub fn keep(&mut self, mut is_kept: impl FnMut(&Grant) -> bool) {
        for grants in self.lists_mut() {
            grants.retain(|grant| !grant.privileges.is_empty() && is_kept(grant));
        }
        self.columns.retain(|granted| !granted.grants.is_empty());
    }

    /// Gives a role another name wherever it stands.
    pub fn rename_role(&mut self, old: &str, new: &str) {
        let rename = |role: &mut Option<String>| {
            if role.as_deref() == Some(old) {
                *role = Some(new.to_owned());
            }
        };
        rename(&mut self.owner);
        for grant in self.lists_mut().flatten() {
            rename(&mut grant.grantee);
            rename(&mut grant.grantor);
        }
    }

    /// The roles that it names.
    pub fn roles(&self) -> impl Iterator<Item = &str> {
        let grants = self.grants.iter().chain(self.columns.iter().flat_map(|granted| &granted.grants));
        let granted = grants.flat_map(|grant| [&grant.grantee, &grant.grantor]);
        granted.chain([&self.owner]).filter_map(|role| role.as_deref())
    }
}

/// Something that a role is or may do whatever the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoleAttribute {
    /// It may open sessions.
    Login,
    /// Nothing is checked.
    Superuser,
    /// It has the rights of the roles it is a member of without taking them on.
    Inherit,
    /// It may make, change and drop roles that are no superusers.
    CreateRole,
    /// Kept for clients: there is one database.
    CreateDatabase,
    /// It may follow the log, and read all changes.
    Replication,
    /// Kept for clients: there are no policies for rows.
    BypassRowSecurity,
}

/// A role's membership in another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Membership {
    /// The role whose rights the member has.
    pub role: String,
    /// Whether the member may make others members.
    pub admin: bool,
}

/// A role: a user, a group, or both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleDef {
    /// Its name, by which everything refers to it.
    pub name: String,
    /// What tells it from another role that has, or had, the same name: drawn when it is made, and kept when it is renamed. 0 of
    /// roles that were made before there were numbers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub number: u64,
    /// What it is and may do.
    pub attributes: BTreeSet<RoleAttribute>,
    /// What proves its password, as PostgreSQL writes it (`SCRAM-SHA-256$...`); `None`: it has no password.
    pub verifier: Option<String>,
    /// When the password ends to be valid, in microseconds since 1970-01-01 UTC.
    pub valid_until: Option<i64>,
    /// The roles that it is a member of.
    pub member_of: BTreeSet<Membership>,
}

/// Whether a role has no number. Of definitions as they were before there were numbers, nothing is written.
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl RoleDef {
    /// A role that can do nothing but inherit, without a number.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            number: 0,
            attributes: BTreeSet::from([RoleAttribute::Inherit]),
            verifier: None,
            valid_until: None,
            member_of: BTreeSet::new(),
        }
    }

    /// Whether it has the attribute.
    #[must_use]
    pub fn is(&self, attribute: RoleAttribute) -> bool {
        self.attributes.contains(&attribute)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn privileges_are_written_as_letters_and_read_again() {
        let some = Privileges::of(&[Privilege::Update, Privilege::Insert, Privilege::Create]);
        assert_eq!(serde_json::to_string(&some).unwrap(), "\"awC\"");
        assert_eq!(serde_json::from_str::<Privileges>("\"awC\"").unwrap(), some);
        assert!(serde_json::from_str::<Privileges>("\"aZ\"").is_err());
        let all = Privileges::of(&Privilege::ALL);
        assert_eq!(all.iter().count(), Privilege::ALL.len(), "each privilege has a bit of its own");
        assert!(!all.without(some).contains(Privilege::Insert));
        assert_eq!(all.intersection(some), some);
    }

    #[test]
    fn one_grantor_grants_a_role_once_and_renamed_roles_keep_what_they_have() {
        let grant = |privilege, grantable| Grant {
            grantee: Some("clerk".to_owned()),
            grantor: Some("boss".to_owned()),
            privileges: Privileges::of(&[privilege]),
            grantable,
        };
        let mut access = ObjectAccess::owned_by(Some("boss"));
        grant(Privilege::Select, Privileges::NONE).add_to(&mut access.grants);
        grant(Privilege::Insert, Privileges::of(&[Privilege::Insert])).add_to(&mut access.grants);
        let of_all = Grant { grantee: None, ..grant(Privilege::Select, Privileges::NONE) };
        of_all.add_to(&mut access.grants);
        assert_eq!(access.grants.len(), 2);
        assert_eq!(String::from(access.grants[0].privileges), "ar");
        assert_eq!(String::from(access.grants[0].grantable), "a");
        access.rename_role("boss", "chief");
        access.rename_role("clerk", "boss");
        assert_eq!(access.roles().collect::<Vec<_>>(), ["boss", "chief", "chief", "chief"]);
    }

    #[test]
    fn columns_have_grants_of_their_own() {
        let update = Grant {
            grantee: Some("clerk".to_owned()),
            grantor: None,
            privileges: Privileges::of(&[Privilege::Update]),
            grantable: Privileges::NONE,
        };
        let mut access = ObjectAccess::default();
        for column in [3, 1, 3] {
            update.clone().add_to(access.of_column_mut(column));
        }
        assert_eq!(access.columns.iter().map(|granted| granted.column).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(access.of_column(3), [update]);
        assert!(access.of_column(2).is_empty());
        assert_eq!(access.roles().collect::<Vec<_>>(), ["clerk", "clerk"]);
        let grant = r#"{"grantee":"clerk","grantor":null,"privileges":"w","grantable":""}"#;
        let written = serde_json::to_string(&access).unwrap();
        let column = |column: usize| format!(r#"{{"column":{column},"grants":[{grant}]}}"#);
        assert_eq!(written, format!(r#"{{"columns":[{},{}]}}"#, column(1), column(3)));
        assert_eq!(serde_json::from_str::<ObjectAccess>(&written).unwrap(), access);
        access.rename_role("clerk", "boss");
        assert_eq!(access.roles().collect::<Vec<_>>(), ["boss", "boss"]);
        access.keep(|grant| grant.grantee.as_deref() != Some("boss"));
        assert!(access.is_default());
    }

    #[test]
    fn access_as_it_was_before_there_were_roles_leaves_no_trace_in_json() {
        assert_eq!(serde_json::to_string(&ObjectAccess::default()).unwrap(), "{}");
        assert_eq!(serde_json::from_str::<ObjectAccess>("{}").unwrap(), ObjectAccess::default());
    }
}
