// SPDX-License-Identifier: Apache-2.0
//! How much memory definitions take.
//!
//! It is counted from the parts as they are, without making anything: who asks for memory has not taken it yet. Each definition is taken
//! apart by all of its fields, so one that gets a new field does not compile until that is counted here.
//!
//! Cost: a step for each part, however long its texts are.

use super::{
    CatalogChange, CheckDef, ColumnDef, DomainDef, ForeignDef, ForeignKeyDef, IndexDef, QualifiedName,
    SequenceDef, TableDef, TypeDef, ViewColumn, ViewDef,
};
use crate::access_rights::{ColumnGrants, Grant, Membership, ObjectAccess, RoleDef};
use crate::brick_def::BrickDef;
use crate::default_privileges::DefaultPrivileges;
use crate::enum_type::{EnumDef, EnumLabel};
use crate::replicas::SynchronousReplicas;
use crate::session_defaults::{DefaultSetting, SessionDefaults};
use crate::types::ColumnType;
use std::collections::{BTreeMap, BTreeSet};

/// What a piece of memory takes beside its contents: its place in the allocator.
const PIECE_BYTES: usize = 16;

/// What a column takes in the layout of rows, which is made of the columns.
const LAYOUT_BYTES: usize = 32;

impl CatalogChange {
    /// Bytes that it takes with all its parts.
    pub(crate) fn kept_bytes(&self) -> usize {
        let parts = match self {
            Self::PutSchema(name) | Self::RemoveSchema(name) | Self::RemoveRole(name) => name.beside(),
            Self::PutTable(def) => PIECE_BYTES + size_of::<TableDef>() + def.beside(),
            Self::PutView(def) => def.beside(),
            Self::RemoveView(name) => name.beside(),
            Self::PutSequence(def) => def.beside(),
            Self::PutRole(def) => def.beside(),
            Self::PutSchemaAccess(name, access) | Self::PutServerAccess(name, access) => {
                name.beside() + access.beside()
            }
            Self::PutDefaultPrivileges(defaults) => defaults.beside(),
            Self::PutSessionDefaults(defaults) => defaults.beside(),
            Self::PutSynchronousReplicas(replicas) => replicas.beside(),
            Self::PutType(def) => def.beside(),
            Self::RemoveTable(_) | Self::Truncate(_) | Self::RemoveSequence(_) | Self::RemoveType(_) => 0,
        };
        size_of::<Self>() + parts
    }
}

/// Something that may have parts elsewhere in memory.
trait Parts {
    /// What those take.
    fn beside(&self) -> usize;
}

/// A number, or what is kept in its own place as a whole.
macro_rules! without_parts {
    ($($kind:ty),*) => { $(impl Parts for $kind {
        fn beside(&self) -> usize {
            0
        }
    })* };
}

without_parts!(
    u8,
    usize,
    super::DeclaredOrder,
    crate::access_rights::RoleAttribute,
    crate::brick_def::BrickDimension
);

impl Parts for String {
    fn beside(&self) -> usize {
        if self.capacity() == 0 { 0 } else { PIECE_BYTES + self.capacity() }
    }
}

impl<T: Parts> Parts for Option<T> {
    fn beside(&self) -> usize {
        self.as_ref().map_or(0, Parts::beside)
    }
}

impl<T: Parts> Parts for Vec<T> {
    fn beside(&self) -> usize {
        let own = if self.capacity() == 0 { 0 } else { PIECE_BYTES + self.capacity() * size_of::<T>() };
        own + self.iter().map(Parts::beside).sum::<usize>()
    }
}

/// Nodes of these trees are half full at least.
impl<K: Parts, V: Parts> Parts for BTreeMap<K, V> {
    fn beside(&self) -> usize {
        let entry = |(key, value): (&K, &V)| {
            PIECE_BYTES + 2 * (size_of::<K>() + size_of::<V>()) + key.beside() + value.beside()
        };
        self.iter().map(entry).sum()
    }
}

impl<T: Parts> Parts for BTreeSet<T> {
    fn beside(&self) -> usize {
        self.iter().map(|entry| PIECE_BYTES + 2 * size_of::<T>() + entry.beside()).sum()
    }
}

/// The labels of an enum are kept once for the whole process and written with each definition that names them.
impl Parts for ColumnType {
    fn beside(&self) -> usize {
        self.user_type().map_or(0, |ty| ty.def().beside())
    }
}

impl Parts for EnumDef {
    fn beside(&self) -> usize {
        let Self { id: _, array_id: _, name, labels } = self;
        name.beside() + labels.beside()
    }
}

impl Parts for EnumLabel {
    fn beside(&self) -> usize {
        let Self { place: _, name } = self;
        name.beside()
    }
}

impl Parts for QualifiedName {
    fn beside(&self) -> usize {
        let Self { schema, name } = self;
        schema.beside() + name.beside()
    }
}

impl Parts for ObjectAccess {
    fn beside(&self) -> usize {
        let Self { owner, grants, columns } = self;
        owner.beside() + grants.beside() + columns.beside()
    }
}

impl Parts for ColumnGrants {
    fn beside(&self) -> usize {
        let Self { column: _, grants } = self;
        grants.beside()
    }
}

impl Parts for DefaultPrivileges {
    fn beside(&self) -> usize {
        let Self { objects: _, schema, access } = self;
        schema.beside() + access.beside()
    }
}

impl Parts for SessionDefaults {
    fn beside(&self) -> usize {
        let Self { role, reach: _, settings } = self;
        role.beside() + settings.beside()
    }
}

impl Parts for DefaultSetting {
    fn beside(&self) -> usize {
        let Self { name, value } = self;
        name.beside() + value.beside()
    }
}

impl Parts for Grant {
    fn beside(&self) -> usize {
        let Self { grantee, grantor, privileges: _, grantable: _ } = self;
        grantee.beside() + grantor.beside()
    }
}

impl Parts for Membership {
    fn beside(&self) -> usize {
        let Self { role, admin: _ } = self;
        role.beside()
    }
}

impl Parts for RoleDef {
    fn beside(&self) -> usize {
        let Self { name, number: _, attributes, verifier, valid_until: _, member_of } = self;
        name.beside() + attributes.beside() + verifier.beside() + member_of.beside()
    }
}

impl Parts for ColumnDef {
    fn beside(&self) -> usize {
        let Self {
            name,
            ty,
            not_null: _,
            default,
            identity: _,
            sequence: _,
            missing,
            state: _,
            comment,
            generated,
            second_digits: _,
            domain,
        } = self;
        // The log has each byte of a missing value as a number.
        let written = 2 * missing.beside();
        LAYOUT_BYTES
            + domain.as_deref().map_or(0, DomainDef::kept_bytes)
            + [name.beside(), ty.beside(), default.beside(), written, comment.beside(), generated.beside()]
                .iter()
                .sum::<usize>()
    }
}

impl Parts for IndexDef {
    fn beside(&self) -> usize {
        let Self { id: _, name, columns, uniqueness: _, declared_order } = self;
        name.beside() + columns.beside() + declared_order.beside()
    }
}

impl Parts for CheckDef {
    fn beside(&self) -> usize {
        let Self { name, expression, validity: _ } = self;
        name.beside() + expression.beside()
    }
}

impl DomainDef {
    /// Bytes that one takes which is kept by itself.
    fn kept_bytes(&self) -> usize {
        let Self { id: _, name, ty, declared, second_digits: _, not_null: _, default, checks } = self;
        let parts = name.beside() + ty.beside() + declared.beside() + default.beside() + checks.beside();
        PIECE_BYTES + size_of::<Self>() + parts
    }
}

impl Parts for ForeignKeyDef {
    fn beside(&self) -> usize {
        let Self {
            name,
            columns,
            parent: _,
            parent_columns,
            on_delete: _,
            on_update: _,
            deferral: _,
            validity: _,
        } = self;
        name.beside() + columns.beside() + parent_columns.beside()
    }
}

impl Parts for BrickDef {
    fn beside(&self) -> usize {
        let Self { dimensions, retention: _, replicas: _ } = self;
        dimensions.beside()
    }
}

impl Parts for ForeignDef {
    fn beside(&self) -> usize {
        let Self { server, table } = self;
        server.beside() + table.beside()
    }
}

impl Parts for TableDef {
    fn beside(&self) -> usize {
        // What columns take in the layout is counted with each of them.
        let Self {
            id: _,
            name,
            columns,
            primary_key,
            primary_key_name,
            indexes,
            checks,
            foreign_keys,
            access,
            comment,
            constraint_comments,
            index_comments,
            bricks,
            foreign,
            layout: _,
        } = self;
        let keys =
            primary_key.beside() + primary_key_name.beside() + indexes.beside() + foreign_keys.beside();
        let comments = comment.beside() + constraint_comments.beside() + index_comments.beside();
        let places = bricks.beside() + foreign.beside();
        name.beside() + columns.beside() + keys + checks.beside() + access.beside() + comments + places
    }
}

impl Parts for ViewDef {
    fn beside(&self) -> usize {
        let Self { name, columns, query, access, comment, output, check: _ } = self;
        let texts = name.beside() + query.beside() + comment.beside();
        texts + columns.beside() + access.beside() + output.beside()
    }
}

impl Parts for ViewColumn {
    fn beside(&self) -> usize {
        let Self { name, ty, default } = self;
        name.beside() + ty.beside() + default.beside()
    }
}

impl Parts for SequenceDef {
    fn beside(&self) -> usize {
        let Self {
            id: _,
            name,
            start: _,
            increment: _,
            min: _,
            max: _,
            cycle: _,
            ty: _,
            owned_by: _,
            access,
        } = self;
        name.beside() + access.beside()
    }
}

impl Parts for TypeDef {
    fn beside(&self) -> usize {
        let Self { ty, domain, access } = self;
        ty.def().beside() + domain.as_deref().map_or(0, DomainDef::kept_bytes) + access.beside()
    }
}

impl Parts for SynchronousReplicas {
    fn beside(&self) -> usize {
        let Self { count: _, choice: _, names, primary, before } = self;
        names.beside() + primary.beside() + before.beside()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Validity;
    use super::*;
    use crate::ids::SpaceId;

    fn column(number: usize) -> ColumnDef {
        ColumnDef { comment: Some("x".repeat(100)), ..ColumnDef::new(format!("c{number}"), ColumnType::Int) }
    }

    fn bytes_of(columns: usize) -> usize {
        let columns: Vec<ColumnDef> = (0..columns).map(column).collect();
        let def = TableDef::new(SpaceId::new(7), QualifiedName::new("public", "t"), columns, vec![0]);
        CatalogChange::PutTable(Box::new(def)).kept_bytes()
    }

    /// What is kept is no less than what the parts have, and no more than twice as much.
    #[test]
    fn a_definition_takes_what_its_parts_take() {
        let (few, many) = (bytes_of(10), bytes_of(1_010));
        let each = size_of::<ColumnDef>() + "c1000".len() + 100;
        assert!(many - few >= 1_000 * each && many - few <= 2_000 * each, "{few}, {many}, {each} for each");
        let schema = |length: usize| CatalogChange::PutSchema("x".repeat(length)).kept_bytes();
        assert!((100..200).contains(&(schema(1_100) - schema(1_000))));
        assert!(CatalogChange::Truncate(SpaceId::new(7)).kept_bytes() >= size_of::<CatalogChange>());
    }

    /// Each field that holds something counts: a comment of an index, a grant, a check.
    #[test]
    fn every_part_of_a_table_counts() {
        let of = |change: &dyn Fn(&mut TableDef)| {
            let columns = vec![ColumnDef::new("a", ColumnType::Int)];
            let mut def = TableDef::new(SpaceId::new(7), QualifiedName::new("public", "t"), columns, vec![0]);
            change(&mut def);
            CatalogChange::PutTable(Box::new(def)).kept_bytes()
        };
        let text = || "x".repeat(1_000);
        let bare = of(&|_| {});
        let changes: [&dyn Fn(&mut TableDef); 8] = [
            &|def| def.comment = Some(text()),
            &|def| def.name.name = text(),
            &|def| def.primary_key_name = text(),
            &|def| def.columns[0].default = Some(text()),
            &|def| def.columns[0].missing = Some(vec![0; 1_000]),
            &|def| drop(def.index_comments.insert("i".to_owned(), text())),
            &|def| {
                def.checks.push(CheckDef {
                    name: "c".to_owned(),
                    expression: text(),
                    validity: Validity::default(),
                })
            },
            &|def| def.access.owner = Some(text()),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            assert!(of(change) >= bare + 900, "change {number}");
        }
    }
}
