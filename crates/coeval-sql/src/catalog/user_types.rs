// SPDX-License-Identifier: Apache-2.0
//! Types that users have made, as `pg_type` and `pg_enum` have them, and by their names and ids.

use super::Source;
use super::objects::Objects;
use super::roles::owner_oid;
use super::rows::Table;
use crate::oids;
use crate::quoting::quoted;
use crate::types::{category, facts_of_column};
use coeval_store::{ColumnDef, DomainDef, EnumDef, QualifiedName, TypeDef};
use std::sync::Arc;

/// Fills the relation if this module knows it. Fixed rows of `pg_type` are there already.
pub(super) fn fill(name: &str, table: &mut Table, source: &Source<'_>) {
    let types = source.transaction.catalog().user_types();
    match name {
        "pg_type" => types.for_each(|def| push_type(table, def)),
        "pg_enum" => types.for_each(|def| push_labels(table, def.ty.def())),
        _ => {}
    }
}

fn push_type(table: &mut Table, def: &TypeDef) {
    match &def.domain {
        Some(domain) => push_domain(table, def, domain),
        None => push_enum(table, def),
    }
    push_array(table, def);
}

fn push_enum(table: &mut Table, def: &TypeDef) {
    let name = def.name();
    let (oid, array) = (oids::of_space(def.id()), oids::of_space(def.ty.def().array_id));
    let (schema, owner) = (oids::of_schema(&name.schema), owner_oid(def.access.owner.as_deref()));
    table.push([
        ("oid", oid.into()),
        ("typname", name.name.as_str().into()),
        ("typnamespace", schema.into()),
        ("typowner", owner.into()),
        ("typlen", 4.into()),
        ("typbyval", true.into()),
        ("typtype", "e".into()),
        ("typcategory", "E".into()),
        ("typisdefined", true.into()),
        ("typdelim", ",".into()),
        ("typsubscript", "-".into()),
        ("typarray", array.into()),
        ("typinput", "enum_in".into()),
        ("typoutput", "enum_out".into()),
        ("typreceive", "enum_recv".into()),
        ("typsend", "enum_send".into()),
        ("typmodin", "-".into()),
        ("typmodout", "-".into()),
        ("typanalyze", "-".into()),
        ("typalign", "i".into()),
        ("typstorage", "p".into()),
        ("typtypmod", (-1).into()),
    ]);
}

/// A domain, which has what its type has, but for its own rules.
fn push_domain(table: &mut Table, def: &TypeDef, domain: &DomainDef) {
    let facts = facts_of_column(&ColumnDef {
        second_digits: domain.second_digits,
        ..ColumnDef::new(String::new(), domain.ty)
    });
    let array = oids::of_space(def.ty.def().array_id);
    table.push([
        ("oid", oids::of_space(domain.id).into()),
        ("typname", domain.name.name.as_str().into()),
        ("typnamespace", oids::of_schema(&domain.name.schema).into()),
        ("typowner", owner_oid(def.access.owner.as_deref()).into()),
        ("typlen", i32::from(facts.length).into()),
        ("typbyval", (facts.length > 0 && facts.length <= 8).into()),
        ("typtype", "d".into()),
        ("typcategory", category(domain.ty).into()),
        ("typisdefined", true.into()),
        ("typdelim", ",".into()),
        ("typsubscript", "-".into()),
        ("typarray", array.into()),
        ("typinput", "domain_in".into()),
        ("typreceive", "domain_recv".into()),
        ("typmodin", "-".into()),
        ("typmodout", "-".into()),
        ("typanalyze", "-".into()),
        ("typalign", facts.align.into()),
        ("typstorage", facts.storage.into()),
        ("typnotnull", domain.not_null.into()),
        ("typbasetype", facts.oid.into()),
        ("typtypmod", facts.modifier.into()),
        ("typcollation", facts.collation.into()),
        ("typdefault", domain.default.as_deref().into()),
    ]);
}

fn push_array(table: &mut Table, def: &TypeDef) {
    let name = def.name();
    let (oid, array) = (oids::of_space(def.id()), oids::of_space(def.ty.def().array_id));
    let (schema, owner) = (oids::of_schema(&name.schema), owner_oid(def.access.owner.as_deref()));
    table.push([
        ("oid", array.into()),
        ("typname", array_name(name).into()),
        ("typnamespace", schema.into()),
        ("typowner", owner.into()),
        ("typlen", (-1).into()),
        ("typtype", "b".into()),
        ("typcategory", "A".into()),
        ("typisdefined", true.into()),
        ("typdelim", ",".into()),
        ("typsubscript", "array_subscript_handler".into()),
        ("typelem", oid.into()),
        ("typinput", "array_in".into()),
        ("typoutput", "array_out".into()),
        ("typreceive", "array_recv".into()),
        ("typsend", "array_send".into()),
        ("typmodin", "-".into()),
        ("typmodout", "-".into()),
        ("typanalyze", "array_typanalyze".into()),
        ("typalign", "i".into()),
        ("typstorage", "x".into()),
        ("typtypmod", (-1).into()),
    ]);
}

fn array_name(name: &QualifiedName) -> String {
    format!("_{}", name.name)
}

fn push_labels(table: &mut Table, def: &EnumDef) {
    for label in &def.labels {
        table.push([
            ("oid", oids::of_name("label", &def.id.to_string(), &label.place.to_string()).into()),
            ("enumtypid", oids::of_space(def.id).into()),
            ("enumsortorder", super::rows::Cell::Float(f64::from(EnumDef::sort_order(label.place)))),
            ("enumlabel", label.name.as_str().into()),
        ]);
    }
}

/// A type by its id.
pub(super) struct Found<'o> {
    def: &'o Arc<TypeDef>,
    is_array: bool,
}

/// The type with this id.
pub(super) fn with_oid(objects: &Objects, oid: i32) -> Option<Found<'_>> {
    objects.definitions.catalog().user_types().find_map(|def| {
        let is_array = oids::of_space(def.ty.def().array_id) == oid;
        (is_array || oids::of_space(def.id()) == oid).then_some(Found { def, is_array })
    })
}

impl Found<'_> {
    /// The name as it has to be written: with its schema if it is not found without.
    pub(super) fn written(&self, objects: &Objects) -> String {
        let name = self.def.name();
        let schema =
            if self.is_visible(objects) { String::new() } else { format!("{}.", quoted(&name.schema)) };
        let brackets = if self.is_array { "[]" } else { "" };
        format!("{schema}{}{brackets}", quoted(&name.name))
    }

    /// Whether it is found by its name alone.
    pub(super) fn is_visible(&self, objects: &Objects) -> bool {
        in_path(objects, &self.def.name().name).is_some_and(|found| found.id() == self.def.id())
    }
}

/// The id of the type of this name, whose parts are folded.
pub(super) fn named(objects: &Objects, schema: Option<&str>, name: &str) -> Option<i32> {
    let (element, is_array) = match name.strip_suffix("[]") {
        Some(element) => (element, true),
        None => (name, false),
    };
    let find = |name: &str| match schema {
        Some(schema) => objects.definitions.catalog().user_type(&QualifiedName::new(schema, name)),
        None => in_path(objects, name),
    };
    if let Some(def) = find(element) {
        return Some(oids::of_space(if is_array { def.ty.def().array_id } else { def.id() }));
    }
    let def = find(name.strip_prefix('_')?)?;
    Some(oids::of_space(def.ty.def().array_id))
}

fn in_path<'o>(objects: &'o Objects, name: &str) -> Option<&'o Arc<TypeDef>> {
    let catalog = objects.definitions.catalog();
    objects.path.iter().find_map(|schema| catalog.user_type(&QualifiedName::new(schema, name)))
}
