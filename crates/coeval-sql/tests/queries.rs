// SPDX-License-Identifier: Apache-2.0
//! Queries through a session, over tables that are put into the store by hand.

use coeval_sql::{Engine, Session};
use coeval_store::{
    AccessMode, CatalogChange, ColumnDef, ColumnType, QualifiedName, RowWriter, Store, StoreOptions, TableDef, Value,
};
use coeval_txn::Isolation;

fn session() -> Session {
    let store = Store::in_memory(StoreOptions::default());
    let mut transaction = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    let numeric = ColumnType::Numeric { precision: 12, scale: 2 };
    let columns = vec![
        ColumnDef::new("id", ColumnType::BigInt),
        ColumnDef::new("name", ColumnType::Text),
        ColumnDef::new("price", numeric),
        ColumnDef::new("small", ColumnType::Int),
        ColumnDef::new("f", ColumnType::Double),
    ];
    let def = TableDef::new(store.new_space_id(), QualifiedName::new("public", "t"), columns, vec![0]);
    transaction.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    let mut writer = RowWriter::new(def.layout());
    for id in 0..10_i64 {
        let name = if id == 3 { Value::Null } else { Value::from(format!("n{id}")) };
        for value in [
            Value::Int64(id),
            name,
            Value::Decimal(i128::from(id) * 150),
            Value::Int32(i32::MAX - id as i32),
            Value::Float64(id as f64 / 2.0),
        ] {
            writer.push(value.borrow()).unwrap();
        }
        transaction.insert(def.id, writer.finish()).unwrap();
    }
    transaction.end_statement().unwrap();
    transaction.commit().unwrap();
    Engine::new(store).unwrap().session()
}

fn table(session: &mut Session, sql: &str) -> String {
    match session.execute(sql) {
        Ok(results) => {
            let mut out = String::new();
            for result in results {
                out.push_str(&format!("{}\n", result.tag));
                if let Some(rows) = result.rows {
                    out.push_str(&arrow::util::pretty::pretty_format_batches(&rows.batches).unwrap().to_string());
                    out.push('\n');
                }
            }
            out
        }
        Err(error) => format!("{error} at {:?}", error.position),
    }
}

#[test]
fn scratch() {
    let mut session = session();
    for sql in std::fs::read_to_string("/tmp/q.sql").unwrap().split(';') {
        if !sql.trim().is_empty() {
            println!("> {}\n{}", sql.trim(), table(&mut session, sql));
        }
    }
}
