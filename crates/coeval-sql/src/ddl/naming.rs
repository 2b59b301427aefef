// SPDX-License-Identifier: Apache-2.0
//! The names that PostgreSQL gives to constraints, indexes and sequences that were created without one.

use coeval_store::{Catalog, QualifiedName, TableDef};

/// The longest identifier, in bytes.
const NAME_BYTES_MAX: usize = 63;

/// Table, columns and label joined by `_`, table and columns cut so that the whole fits a name.
pub(super) fn object_name(table: &str, columns: &str, label: &str) -> String {
    let overhead = 1 + label.len() + usize::from(!columns.is_empty());
    let room = NAME_BYTES_MAX - overhead;
    let (mut table_bytes, mut columns_bytes) = (table.len(), columns.len());
    while table_bytes + columns_bytes > room {
        if table_bytes > columns_bytes {
            table_bytes -= 1;
        } else {
            columns_bytes -= 1;
        }
    }
    let (table, columns) = (cut(table, table_bytes), cut(columns, columns_bytes));
    if columns.is_empty() { format!("{table}_{label}") } else { format!("{table}_{columns}_{label}") }
}

/// The longest start of `text` of at most `bytes` bytes that ends at a character.
fn cut(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    &text[..end]
}

/// The first of `table_columns_label`, `table_columns_label1`, .. that is not taken.
pub(super) fn choose(table: &str, columns: &[&str], label: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let columns = columns.join("_");
    let mut name = object_name(table, &columns, label);
    let mut number = 0;
    while is_taken(&name) {
        number += 1;
        name = object_name(table, &columns, &format!("{label}{number}"));
    }
    name
}

/// Whether a constraint of the table has this name.
pub(super) fn has_constraint(def: &TableDef, name: &str) -> bool {
    (def.has_declared_primary_key() && def.primary_key_name == name)
        || def.indexes.iter().any(|index| index.name == name)
        || def.checks.iter().any(|check| check.name == name)
        || def.foreign_keys.iter().any(|foreign_key| foreign_key.name == name)
}

/// Whether a table, index, view or sequence of the schema has this name.
pub(super) fn is_relation(catalog: &Catalog, schema: &str, name: &str) -> bool {
    catalog.resolve(&QualifiedName::new(schema, name)).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_pattern_and_are_numbered_when_taken() {
        assert_eq!(object_name("t", "a_b", "key"), "t_a_b_key");
        assert_eq!(object_name("t", "", "pkey"), "t_pkey");
        let taken = ["t_a_check", "t_a_check1"];
        assert_eq!(choose("t", &["a"], "check", |name| taken.contains(&name)), "t_a_check2");
    }

    #[test]
    fn long_names_are_cut_to_63_bytes_at_a_character() {
        let name = object_name(&"ä".repeat(40), &"c".repeat(50), "fkey");
        assert!(name.len() <= NAME_BYTES_MAX && name.ends_with("_fkey"), "{name}");
    }
}
