// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::relations;

#[test]
fn every_fixed_relation_fits_the_columns_of_postgresql_15() {
    let mut rows = HashMap::new();
    for relation in relations::all().iter().filter(|relation| relation.schema == "pg_catalog") {
        for batch in batches(relation).unwrap() {
            assert_eq!(batch.schema(), relation.arrow(), "{}", relation.name);
            *rows.entry(relation.name).or_insert(0) += batch.num_rows();
        }
    }
    for name in ["pg_type", "pg_proc", "pg_operator", "pg_cast", "pg_collation", "pg_am", "pg_opclass"] {
        assert!(rows.get(name).is_some_and(|rows| *rows > 0), "{name} has no rows");
    }
}

#[test]
fn arrays_of_the_library_are_read() {
    let relation = relations::find("pg_catalog", "pg_proc").unwrap();
    let batches = batches(relation).unwrap();
    let with_names = batches.iter().flat_map(|batch| {
        let names = batch.column_by_name("proargnames").unwrap();
        names.as_list::<i32>().iter().flatten().collect::<Vec<_>>()
    });
    let texts: Vec<String> = with_names
        .flat_map(|names| names.as_string_view().iter().flatten().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert!(texts.iter().any(|name| name == "privilege_type"));
    assert!(texts.iter().all(|name| !name.contains(['[', '\''])));
}
