// SPDX-License-Identifier: Apache-2.0
//! The table that tests of transactions write to: `(id int PRIMARY KEY, value int)`.

use crate::catalog::{ColumnDef, QualifiedName, TableDef};
use crate::key::Key;
use crate::row::{Row, RowWriter};
use crate::store::Store;
use crate::types::ColumnType;
use crate::value::{KeyWriter, Value};

pub(crate) fn table(store: &Store, name: &str) -> TableDef {
    let columns = vec![ColumnDef::new("id", ColumnType::Int), ColumnDef::new("value", ColumnType::Int)];
    TableDef::new(store.new_space_id(), QualifiedName::new("public", name), columns, vec![0])
}

pub(crate) fn row(def: &TableDef, id: i32, value: i32) -> Row {
    let mut writer = RowWriter::new(def.layout());
    writer.push(Value::Int32(id).borrow()).unwrap();
    writer.push(Value::Int32(value).borrow()).unwrap();
    writer.finish()
}

pub(crate) fn key(id: i32) -> Key {
    let mut writer = KeyWriter::new();
    writer.push(Value::Int32(id).borrow());
    writer.finish()
}
