// SPDX-License-Identifier: Apache-2.0
//! The objects that have owners and grants: finding them, and giving them others.

use super::lookup;
use crate::context::StatementContext;
use crate::error::SqlError;
use crate::rights::{Kind, Object, schema_access};
use coeval_store::{
    CatalogChange, ObjectAccess, ObjectRef, QualifiedName, SequenceDef, TableDef, TypeDef, ViewDef,
};
use std::sync::Arc;

/// An object with an owner.
#[derive(Clone, Debug)]
pub(super) enum Owned {
    Table(Arc<TableDef>),
    View(Arc<ViewDef>),
    Sequence(Arc<SequenceDef>),
    Schema(String, ObjectAccess),
    Type(Arc<TypeDef>),
    /// A server of another engine.
    Server(String, ObjectAccess),
}

impl Owned {
    /// What a name stands for. An index is its table's.
    pub(super) fn of(
        context: &StatementContext<'_>,
        name: &QualifiedName,
        object: ObjectRef,
    ) -> Result<Self, SqlError> {
        let lost = || SqlError::internal(format!("{name} is lost"));
        let catalog = context.transaction.catalog();
        Ok(match object {
            ObjectRef::Table(id) | ObjectRef::Index(id, _) => {
                Self::Table(Arc::clone(context.transaction.table_def(id)?))
            }
            ObjectRef::View => Self::View(catalog.view(name).cloned().ok_or_else(lost)?),
            ObjectRef::Sequence(id) => Self::Sequence(catalog.sequence(id).cloned().ok_or_else(lost)?),
        })
    }

    /// A schema.
    ///
    /// # Errors
    /// `3F000` if it is not there.
    pub(super) fn schema(context: &StatementContext<'_>, schema: &str) -> Result<Self, SqlError> {
        let catalog = context.transaction.catalog();
        if !catalog.has_schema(schema) {
            return Err(lookup::unknown_schema(schema));
        }
        Ok(Self::Schema(schema.to_owned(), schema_access(catalog, schema).into_owned()))
    }

    /// A server of another engine.
    ///
    /// # Errors
    /// `42704` if it is not there.
    pub(super) fn server(context: &StatementContext<'_>, server: &str) -> Result<Self, SqlError> {
        if !crate::foreign::is_server(context, server)? {
            return Err(crate::servers::unknown_server(server));
        }
        Ok(Self::known_server(context, server))
    }

    fn known_server(context: &StatementContext<'_>, server: &str) -> Self {
        let access = context.transaction.catalog().server_access(server);
        Self::Server(server.to_owned(), access.map(|access| (**access).clone()).unwrap_or_default())
    }

    /// All of the database.
    pub(super) fn all(context: &StatementContext<'_>) -> Vec<Self> {
        let catalog = context.transaction.catalog();
        let tables = lookup::tables(context).into_iter().map(Self::Table);
        let views = catalog.views().cloned().map(Self::View);
        let sequences = catalog.sequences().cloned().map(Self::Sequence);
        let schemas = catalog
            .schemas_with_access()
            .map(|(schema, access)| Self::Schema(schema.to_owned(), access.as_ref().clone()));
        let types = catalog.user_types().cloned().map(Self::Type);
        let servers = catalog
            .servers_with_access()
            .map(|(server, access)| Self::Server(server.to_owned(), access.as_ref().clone()));
        tables.chain(views).chain(sequences).chain(schemas).chain(types).chain(servers).collect()
    }

    /// The object as it is now; `None` if it has gone since.
    pub(super) fn current(&self, context: &StatementContext<'_>) -> Option<Self> {
        let catalog = context.transaction.catalog();
        match self {
            Self::Table(def) => context.transaction.table_def(def.id).ok().cloned().map(Self::Table),
            Self::View(view) => catalog.view(&view.name).cloned().map(Self::View),
            Self::Sequence(sequence) => catalog.sequence(sequence.id).cloned().map(Self::Sequence),
            Self::Schema(schema, _) => Self::schema(context, schema).ok(),
            Self::Server(server, _) => Some(Self::known_server(context, server)),
            Self::Type(def) => catalog.user_type_numbered(def.id()).cloned().map(Self::Type),
        }
    }

    /// Its kind.
    pub(super) fn kind(&self) -> Kind {
        self.as_object().kind()
    }

    /// It, for those who ask what may be done with it.
    pub(super) fn as_object(&self) -> Object<'_> {
        match self {
            Self::Table(def) => Object::Table(def),
            Self::View(view) => Object::View(view),
            Self::Sequence(sequence) => Object::Sequence(sequence),
            Self::Schema(schema, _) => Object::Schema(schema),
            Self::Type(def) => Object::Type(def),
            Self::Server(server, _) => Object::Server(server),
        }
    }

    /// `table t`.
    pub(super) fn described(&self) -> String {
        match self {
            Self::Table(def) => format!("table {}", def.name),
            Self::View(view) => format!("view {}", view.name),
            Self::Sequence(sequence) => format!("sequence {}", sequence.name),
            Self::Schema(schema, _) => format!("schema {schema}"),
            Self::Type(def) => format!("type {}", def.ty),
            Self::Server(server, _) => format!("server {server}"),
        }
    }

    /// Its name without a schema.
    pub(super) fn bare_name(&self) -> &str {
        self.as_object().name()
    }

    /// The schema it lies in; none for a schema itself.
    pub(super) fn schema_name(&self) -> Option<&str> {
        self.as_object().schema()
    }

    /// Whose it is and what others may do.
    pub(super) fn access(&self) -> &ObjectAccess {
        match self {
            Self::Table(def) => &def.access,
            Self::View(view) => &view.access,
            Self::Sequence(sequence) => &sequence.access,
            Self::Schema(_, access) | Self::Server(_, access) => access,
            Self::Type(def) => &def.access,
        }
    }

    /// Gives it another owner or other grants.
    ///
    /// # Errors
    /// `25006` in a read-only transaction.
    pub(super) fn put(
        &self,
        context: &mut StatementContext<'_>,
        access: ObjectAccess,
    ) -> Result<(), SqlError> {
        if access == *self.access() {
            return Ok(());
        }
        let change = match self {
            Self::Table(def) => {
                let mut def = TableDef::clone(def);
                def.access = access;
                CatalogChange::PutTable(Box::new(def))
            }
            Self::View(view) => CatalogChange::PutView(ViewDef { access, ..ViewDef::clone(view) }),
            Self::Sequence(sequence) => {
                CatalogChange::PutSequence(SequenceDef { access, ..SequenceDef::clone(sequence) })
            }
            Self::Schema(schema, _) => CatalogChange::PutSchemaAccess(schema.clone(), access),
            Self::Server(server, _) => CatalogChange::PutServerAccess(server.clone(), access),
            Self::Type(def) => CatalogChange::PutType(TypeDef { access, ..TypeDef::clone(def) }),
        };
        Ok(context.transaction.change_catalog(change)?)
    }
}
