// SPDX-License-Identifier: Apache-2.0
//! Who may do what: a session's principal, the rights that follow from the catalog, and the refusals.
//!
//! A session belongs to a [`Principal`]: the administrator, who is no role and may do everything, or a role of the
//! catalog. Rights are looked up when a statement is planned, in the newest definitions ([`Authority`]). A plan that is
//! kept remembers for whom it was made and, for a role, with which catalogs, so that running it again costs a comparison of
//! pointers and nothing per row.

mod access_list;
mod authority;
mod predefined;

pub(crate) use access_list::{COLUMN_PRIVILEGES, access_list, all_privileges, entries};
pub(crate) use authority::{Authority, Object};
pub(crate) use predefined::{
    CHECKPOINT, DATABASE_OWNER, MONITOR, SIGNAL_BACKEND, predefined, predefined_oid, role_of, roles_of,
};

use crate::error::{SqlError, SqlState};
use crate::relations::{CATALOG_NAME, INFORMATION_SCHEMA, PG_CATALOG};
use coeval_store::{
    Catalog, Grant, ObjectAccess, ObjectRef, Privilege, Privileges, RoleAttribute, RoleDef, SequenceDef,
    SpaceId, Store, TableDef, Transaction, ViewDef,
};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What the rights of a session come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It may do everything, whatever the catalog says.
    Administrator,
    /// It has the rights of the catalog's role that had its name when the session took it on; none if that has been dropped or
    /// renamed since, also if another role has the name now.
    Role,
}

/// Who a session acts as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Principal {
    pub(crate) name: Arc<str>,
    pub(crate) standing: Standing,
    /// The number of the role that is meant; none if it is whichever has the name.
    number: Option<u64>,
}

impl Principal {
    /// The administrator by this name, or whichever role has it.
    pub(crate) fn new(name: &str, standing: Standing) -> Self {
        Self { name: name.into(), standing, number: None }
    }

    /// The principal that a name stands for when a session takes it on: the database's own name means the administrator.
    pub(crate) fn named(name: &str) -> Self {
        let standing = if name == CATALOG_NAME { Standing::Administrator } else { Standing::Role };
        Self::new(name, standing)
    }

    /// The same as a session takes it on: the role that has the name now, and no later one.
    pub(crate) fn taken_on(self, authority: &Authority) -> Self {
        let number = self.role(authority).map_or(0, |role| role.number);
        Self { number: (self.standing == Standing::Role).then_some(number), ..self }
    }

    /// Its role; none of the administrator, or if that role is not there any more.
    pub(crate) fn role<'a>(&self, authority: &'a Authority) -> Option<&'a RoleDef> {
        let role = authority.role(self.as_owner()?)?;
        self.number.is_none_or(|number| number == role.number).then_some(role)
    }

    /// Whether it is the other one. The same name is the same pointer most of the time.
    #[inline]
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.standing == other.standing
            && self.number == other.number
            && (Arc::ptr_eq(&self.name, &other.name) || self.name == other.name)
    }

    /// What its objects say of their owner.
    pub(crate) fn as_owner(&self) -> Option<&str> {
        (self.standing == Standing::Role).then_some(&*self.name)
    }
}

/// For whom a plan was made that is kept.
#[derive(Clone, Debug)]
pub(crate) struct MadeFor {
    principal: Principal,
    /// What rights were read from, if any were looked up.
    catalogs: Option<(Arc<Catalog>, Arc<Catalog>)>,
}

impl MadeFor {
    /// The principal, in a transaction.
    pub(crate) fn new(principal: &Principal, transaction: &Transaction, store: &Store) -> Self {
        match principal.standing {
            Standing::Administrator => Self { principal: principal.clone(), catalogs: None },
            Standing::Role => Self::with_views(principal, transaction, store),
        }
    }

    /// The principal, in a transaction, of a plan with views: these are read with the rights of their owners, whoever asks. Any change of
    /// definitions ends what was allowed, and so does one of the views.
    pub(crate) fn with_views(principal: &Principal, transaction: &Transaction, store: &Store) -> Self {
        let catalogs = (Arc::clone(transaction.world().catalog()), Arc::clone(store.world().catalog()));
        Self { principal: principal.clone(), catalogs: Some(catalogs) }
    }

    /// Whether what was allowed then is allowed now.
    #[inline]
    pub(crate) fn is_current(&self, principal: &Principal, transaction: &Transaction, store: &Store) -> bool {
        self.principal.is(principal)
            && self.catalogs.as_ref().is_none_or(|(seen, newest)| {
                Arc::ptr_eq(seen, transaction.world().catalog())
                    && Arc::ptr_eq(newest, store.world().catalog())
            })
    }
}

/// The schema of what stands for a view in the query that finds the rows of it which a statement changes.
pub(crate) const CHANGED_VIEW: &str = "coeval changed view";

/// Which of a statement's reads are checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Checks {
    /// All.
    #[default]
    All,
    /// All but those of this table, which the statement changes: what that needs has been checked.
    AllBut(SpaceId),
    /// All but those of this table by way of the view that the statement changes: what that needs has been checked. The view is this
    /// one, with the table's primary key in front, where it goes by [`CHANGED_VIEW`].
    OfView(SpaceId, Arc<ViewDef>),
    /// None: the statement's own rights have been checked, and what it reads serves it.
    Nothing,
}

/// The kinds of objects that have owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A table.
    Table,
    /// A view.
    View,
    /// A sequence.
    Sequence,
    /// An index, which is its table's owner's.
    Index,
    /// A schema.
    Schema,
    /// A type.
    Type,
    /// A server of another engine.
    Server,
}

impl Kind {
    /// Of what a name stands for.
    pub(crate) fn of(object: ObjectRef) -> Self {
        match object {
            ObjectRef::Table(_) => Self::Table,
            ObjectRef::View => Self::View,
            ObjectRef::Sequence(_) => Self::Sequence,
            ObjectRef::Index(..) => Self::Index,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::View => "view",
            Self::Sequence => "sequence",
            Self::Index => "index",
            Self::Schema => "schema",
            Self::Type => "type",
            Self::Server => "foreign server",
        }
    }
}

/// Members of the role of this name may have a server promise that it acknowledges no primary of before, which ends the commits of the
/// one that there is: as a candidate does, and a new primary. It is there once a superuser has made it.
pub(crate) const FAILOVER: &str = "coeval_failover";

/// What a principal may do.
#[derive(Clone, Debug)]
pub(crate) struct Rights {
    /// The roles whose rights it has; `None`: it may do everything.
    roles: Option<BTreeSet<String>>,
    authority: Authority,
}

impl Rights {
    /// Those of a principal.
    pub(crate) fn of(principal: &Principal, authority: Authority) -> Self {
        if principal.standing == Standing::Role && principal.role(&authority).is_none() {
            // What has the name by now is not its own.
            return Self { roles: Some(BTreeSet::new()), authority };
        }
        Self::of_owner(principal.as_owner(), authority)
    }

    /// The rights of an object's owner, which is a role or the administrator. A view reads its tables with these.
    pub(crate) fn of_owner(owner: Option<&str>, authority: Authority) -> Self {
        let is_superuser = |role: &RoleDef| role.is(RoleAttribute::Superuser);
        let roles = owner
            .filter(|name| !authority.role(name).is_some_and(is_superuser))
            .map(|name| memberships(name, &authority, |role| role.is(RoleAttribute::Inherit)));
        Self { roles, authority }
    }

    /// Those with which a view reads.
    ///
    /// # Errors
    /// `42501` if the view of this name is another one by now, and another's.
    pub(crate) fn of_view(view: &ViewDef, authority: &Authority) -> Result<Self, SqlError> {
        match authority.reader_of(view) {
            Some(owner) => Ok(Self::of_owner(owner.as_deref(), authority.clone())),
            None => Err(denied(Kind::View, &view.name.name)),
        }
    }

    /// What they were read from.
    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Whether nothing is refused.
    pub(crate) fn is_superuser(&self) -> bool {
        self.roles.is_none()
    }

    /// Whether it sees what all sessions do.
    pub(crate) fn is_monitor(&self) -> bool {
        self.include(Some(MONITOR))
    }

    /// Whether it may end what sessions run whose rights it has not.
    pub(crate) fn may_signal(&self) -> bool {
        self.include(Some(SIGNAL_BACKEND))
    }

    /// Whether it may make a checkpoint.
    pub(crate) fn may_checkpoint(&self) -> bool {
        self.include(Some(CHECKPOINT))
    }

    /// Whether it may ask for promises.
    pub(crate) fn may_ask_for_promises(&self) -> bool {
        self.include(Some(FAILOVER))
    }

    /// Whether it has the rights of a role, or of the administrator.
    pub(crate) fn include(&self, role: Option<&str>) -> bool {
        match (&self.roles, role) {
            (None, _) => true,
            (Some(roles), Some(role)) => roles.contains(role),
            (Some(_), None) => false,
        }
    }

    /// Whether it has the rights of the owner.
    pub(crate) fn owns(&self, access: &ObjectAccess) -> bool {
        self.include(access.owner.as_deref())
    }

    /// Whether it may do this.
    pub(crate) fn may(&self, access: &ObjectAccess, privilege: Privilege) -> bool {
        self.owns(access) || self.grants(access).any(|grant| grant.privileges.contains(privilege))
    }

    /// Whether it may do this with an object of this kind, whose access this is, or with all of the kind.
    pub(crate) fn may_with(&self, kind: Kind, access: &ObjectAccess, privilege: Privilege) -> bool {
        self.may(access, privilege)
            || predefined::given(kind, privilege).iter().any(|role| self.include(Some(*role)))
    }

    /// Whether it may read what an object holds.
    pub(crate) fn may_read(&self, object: Object<'_>) -> bool {
        self.require(object, Privilege::Select).is_ok()
    }

    /// Whether `nextval` gives it values of a sequence.
    pub(crate) fn may_take_values(&self, sequence: &SequenceDef) -> bool {
        self.require_any(Object::Sequence(sequence), &[Privilege::Usage, Privilege::Update]).is_ok()
    }

    /// What it may grant to others.
    pub(crate) fn grantable(&self, access: &ObjectAccess) -> Privileges {
        if self.owns(access) {
            return Privileges::of(&Privilege::ALL);
        }
        self.grants(access).fold(Privileges::NONE, |all, grant| all.union(grant.grantable))
    }

    /// What it may grant to others on a column of a table or view.
    pub(crate) fn grantable_on(&self, access: &ObjectAccess, column: usize) -> Privileges {
        let on_column = self.own(access.of_column(column));
        on_column.fold(self.grantable(access), |all, grant| all.union(grant.grantable))
    }

    /// Whether it may do this with a column of a table or view, by a grant on that column.
    pub(crate) fn may_on(&self, access: &ObjectAccess, privilege: Privilege, column: usize) -> bool {
        self.own(access.of_column(column)).any(|grant| grant.privileges.contains(privilege))
    }

    /// The grants of an object that are to it.
    fn grants<'a>(&'a self, access: &'a ObjectAccess) -> impl Iterator<Item = &'a Grant> {
        self.own(&access.grants)
    }

    /// Those of a list that are to it.
    fn own<'a>(&'a self, grants: &'a [Grant]) -> impl Iterator<Item = &'a Grant> {
        grants.iter().filter(|grant| match (&grant.grantee, &self.roles) {
            (None, _) | (Some(_), None) => true,
            (Some(grantee), Some(roles)) => roles.contains(grantee),
        })
    }

    /// Refuses what it may not do with an object.
    ///
    /// # Errors
    /// `42501`, for the schema if it may not even look into that.
    pub(crate) fn require(&self, object: Object<'_>, privilege: Privilege) -> Result<(), SqlError> {
        self.require_any(object, &[privilege])
    }

    /// Refuses what takes one of these privileges.
    ///
    /// # Errors
    /// As [`Self::require`].
    pub(crate) fn require_any(&self, object: Object<'_>, privileges: &[Privilege]) -> Result<(), SqlError> {
        if self.is_superuser() {
            return Ok(());
        }
        if let Some(schema) = object.schema() {
            self.require_any(Object::Schema(schema), &[Privilege::Usage])?;
        }
        let access = self.authority.access(object);
        let kind = object.kind();
        let is_allowed = privileges.iter().any(|privilege| self.may_with(kind, &access, *privilege));
        if is_allowed { Ok(()) } else { Err(denied(kind, object.name())) }
    }

    /// The columns of a table that it may read; `None`: all.
    ///
    /// # Errors
    /// As [`Self::require`], if it may read none.
    pub(crate) fn readable(&self, def: &TableDef) -> Result<Option<Vec<usize>>, SqlError> {
        self.readable_columns(Object::Table(def))
    }

    /// The same of a view.
    ///
    /// # Errors
    /// As [`Self::readable`].
    pub(crate) fn readable_of_view(&self, view: &ViewDef) -> Result<Option<Vec<usize>>, SqlError> {
        self.readable_columns(Object::View(view))
    }

    fn readable_columns(&self, object: Object<'_>) -> Result<Option<Vec<usize>>, SqlError> {
        let Err(refused) = self.require(object, Privilege::Select) else { return Ok(None) };
        if let Some(schema) = object.schema() {
            self.require(Object::Schema(schema), Privilege::Usage)?;
        }
        let access = self.authority.access(object);
        let granted = access.columns.iter().map(|granted| granted.column);
        let readable: Vec<usize> =
            granted.filter(|column| self.may_on(&access, Privilege::Select, *column)).collect();
        if readable.is_empty() { Err(refused) } else { Ok(Some(readable)) }
    }

    /// Refuses what takes a privilege on a table or on each of these columns; if there are none, on any one of the table.
    ///
    /// # Errors
    /// As [`Self::require`].
    pub(crate) fn require_on(
        &self,
        def: &TableDef,
        privilege: Privilege,
        columns: &[usize],
    ) -> Result<(), SqlError> {
        self.require_on_any(Object::Table(def), privilege, columns.iter().map(std::slice::from_ref))
    }

    /// The same of a view, of whose columns one of each of these lists is enough.
    ///
    /// # Errors
    /// As [`Self::require`].
    pub(crate) fn require_on_view(
        &self,
        view: &ViewDef,
        privilege: Privilege,
        columns: &[Vec<usize>],
    ) -> Result<(), SqlError> {
        self.require_on_any(Object::View(view), privilege, columns.iter().map(Vec::as_slice))
    }

    fn require_on_any<'c>(
        &self,
        object: Object<'_>,
        privilege: Privilege,
        columns: impl Iterator<Item = &'c [usize]>,
    ) -> Result<(), SqlError> {
        let Err(refused) = self.require(object, privilege) else { return Ok(()) };
        if let Some(schema) = object.schema() {
            self.require(Object::Schema(schema), Privilege::Usage)?;
        }
        let access = self.authority.access(object);
        let may = |column: usize| self.may_on(&access, privilege, column);
        let mut columns = columns.peekable();
        let is_allowed = match columns.peek() {
            None => access.columns.iter().any(|granted| may(granted.column)),
            Some(_) => columns.all(|any| any.iter().any(|column| may(*column))),
        };
        if is_allowed { Ok(()) } else { Err(refused) }
    }

    /// Refuses what only the owner of an object may do.
    ///
    /// # Errors
    /// `42501`.
    pub(crate) fn require_owner(&self, object: Object<'_>) -> Result<(), SqlError> {
        if self.is_superuser() || self.owns(&self.authority.access(object)) {
            return Ok(());
        }
        Err(insufficient(format!("must be owner of {} {}", object.kind().word(), object.name())))
    }
}

/// A role and those it is a member of, as far as `follow` allows to go on from one.
fn memberships(name: &str, authority: &Authority, follow: impl Fn(&RoleDef) -> bool) -> BTreeSet<String> {
    let mut found = BTreeSet::from([name.to_owned()]);
    let mut left = vec![name.to_owned()];
    while let Some(name) = left.pop() {
        let Some(role) = authority.role(&name).filter(|role| follow(role)) else { continue };
        for membership in &role.member_of {
            if found.insert(membership.role.clone()) {
                left.push(membership.role.clone());
            }
        }
    }
    found
}

/// A role and all that it is a member of, over whatever other roles.
pub(crate) fn all_memberships(name: &str, authority: &Authority) -> BTreeSet<String> {
    memberships(name, authority, |_| true)
}

/// Whether a role is a member of another, over whatever other roles, or is that role.
pub(crate) fn is_member(name: &str, of: &str, authority: &Authority) -> bool {
    all_memberships(name, authority).contains(of)
}

/// What one catalog says of whose a schema is and what others may do with it.
pub(crate) fn schema_access<'c>(catalog: &'c Catalog, schema: &str) -> Cow<'c, ObjectAccess> {
    match catalog.schema_access(schema) {
        Some(access) => Cow::Borrowed(&**access),
        None => Cow::Owned(default_schema_access(schema)),
    }
}

/// As in PostgreSQL 15: everyone may use `public` and the system's schemas, and only the owner may create anything there.
fn default_schema_access(schema: &str) -> ObjectAccess {
    let is_open =
        schema == coeval_store::DEFAULT_SCHEMA || schema == PG_CATALOG || schema == INFORMATION_SCHEMA;
    let usage = Grant {
        grantee: None,
        grantor: None,
        privileges: Privileges::of(&[Privilege::Usage]),
        grantable: Privileges::NONE,
    };
    ObjectAccess { grants: if is_open { vec![usage] } else { Vec::new() }, ..ObjectAccess::default() }
}

/// `permission denied for ...`
pub(crate) fn denied(kind: Kind, name: &str) -> SqlError {
    insufficient(format!("permission denied for {} {name}", kind.word()))
}

/// `42501` with this message.
pub(crate) fn insufficient(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::InsufficientPrivilege, message)
}

/// `42704` for a role that is not there.
pub(crate) fn unknown_role(name: &str) -> SqlError {
    SqlError::new(SqlState::UndefinedObject, format!("role \"{name}\" does not exist"))
}

#[cfg(test)]
mod tests;
