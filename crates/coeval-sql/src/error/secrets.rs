// SPDX-License-Identifier: Apache-2.0
//! Details that not everybody may see: keys of rows that others hold, and what others ran.
//!
//! The store says in an error's detail which key was taken and who was first. That is told to who may read the table, and
//! what another session ran to who has the rights of that session's role; superusers see all of it. PostgreSQL has the same
//! rule for keys.

use super::SqlError;
use crate::registry::Registry;
use crate::rights::{Object, Rights};
use coeval_store::{QualifiedName, STATEMENT_MARK, SpaceId};

/// How a table is named whose keys a detail shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TableName {
    /// By its number.
    Space(SpaceId),
    /// By its name.
    Name(QualifiedName),
}

/// What a detail shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Secrets {
    /// The tables whose keys it shows.
    pub(crate) tables: Vec<TableName>,
    /// The session whose last statement it shows.
    pub(crate) session: Option<i32>,
    /// What is said where the keys may not be seen.
    pub(crate) instead: Option<String>,
}

impl Secrets {
    /// Keys of one table.
    pub(crate) fn key_of(table: QualifiedName) -> Self {
        Self { tables: vec![TableName::Name(table)], session: None, instead: None }
    }
}

impl SqlError {
    /// The same error, whose detail shows this.
    pub(crate) fn with_secrets(mut self, secrets: Secrets) -> Self {
        self.secrets = Some(Box::new(secrets));
        self
    }

    /// The same error without what this one may not see.
    pub(crate) fn shown_to(mut self, rights: &Rights, registry: &Registry) -> Self {
        let Some(secrets) = self.secrets.take() else { return self };
        if rights.is_superuser() {
            return self;
        }
        if !secrets.tables.iter().all(|table| may_read(table, rights)) {
            self.detail = secrets.instead;
            return self;
        }
        let ran_it =
            |pid| registry.find(pid).is_some_and(|session| rights.include(session.principal().as_owner()));
        if !secrets.session.is_some_and(ran_it)
            && let Some(detail) = &mut self.detail
            && let Some(mark) = detail.find(STATEMENT_MARK)
        {
            detail.truncate(mark);
            detail.push('.');
        }
        self
    }
}

fn may_read(table: &TableName, rights: &Rights) -> bool {
    let world = rights.authority().seen();
    let found = match table {
        TableName::Name(name) => world.table_named(name),
        TableName::Space(space) => world.table(*space),
    };
    found.is_some_and(|table| rights.may_read(Object::Table(table.def())))
}
