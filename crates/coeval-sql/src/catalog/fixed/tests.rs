// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::relations;
use crate::types::{CastContext, has_cast, is_text, type_number};
use arrow::datatypes::Int32Type;
use coeval_store::ColumnType;

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

/// Clients read in `pg_cast` what the engine does. Casts of `bytea` are left out: PostgreSQL 18 has some more of them.
#[test]
fn casts_in_the_catalog_are_those_that_there_are() {
    const NUMERIC: ColumnType = ColumnType::Numeric { precision: 5, scale: 2 };
    const TYPES: [ColumnType; 22] = [
        ColumnType::Boolean,
        ColumnType::SmallInt,
        ColumnType::Int,
        ColumnType::BigInt,
        ColumnType::Real,
        ColumnType::Double,
        NUMERIC,
        ColumnType::Text,
        ColumnType::Varchar(3),
        ColumnType::Char(3),
        ColumnType::Date,
        ColumnType::Time,
        ColumnType::TimeTz,
        ColumnType::Timestamp,
        ColumnType::TimestampTz,
        ColumnType::Interval,
        ColumnType::Uuid,
        ColumnType::PgLsn,
        ColumnType::Bit(None),
        ColumnType::Varbit(None),
        ColumnType::Json,
        ColumnType::Jsonb,
    ];
    let mut rows = HashMap::new();
    for batch in batches(relations::find("pg_catalog", "pg_cast").unwrap()).unwrap() {
        let column = |name: &str, ty| cast(batch.column_by_name(name).unwrap(), &ty).unwrap();
        let (sources, targets) =
            (column("castsource", DataType::Int32), column("casttarget", DataType::Int32));
        let contexts = column("castcontext", DataType::Utf8View);
        let (sources, targets) = (sources.as_primitive::<Int32Type>(), targets.as_primitive::<Int32Type>());
        for (row, context) in contexts.as_string_view().iter().enumerate() {
            rows.insert((sources.value(row), targets.value(row)), context.unwrap().to_owned());
        }
    }
    for (from, to) in TYPES.into_iter().flat_map(|from| TYPES.map(|to| (from, to))) {
        if from == to {
            continue;
        }
        let context = match rows.get(&(type_number(from), type_number(to))).map(String::as_str) {
            Some("i") => Some(CastContext::Implicit),
            Some("a") => Some(CastContext::Assignment),
            Some("e") => Some(CastContext::Explicit),
            Some(other) => panic!("{other}"),
            // What is not in the catalog is written or read.
            None if is_text(to) => Some(CastContext::Assignment),
            None if is_text(from) => Some(CastContext::Explicit),
            None => None,
        };
        for wanted in [CastContext::Implicit, CastContext::Assignment, CastContext::Explicit] {
            let is_told = context.is_some_and(|context| context <= wanted);
            assert_eq!(has_cast(from, to, wanted), is_told, "{from} to {to}: {wanted:?}");
        }
    }
}
