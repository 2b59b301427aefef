// SPDX-License-Identifier: Apache-2.0
//! Sizes of tables, indexes and the database.

use super::{Call, Entry, Gives, called, strict};
use crate::catalog::classes::class_size;
use crate::catalog::objects::{Class, Kind};
use crate::catalog::rows::Cell;
use crate::error::SqlError;

pub(super) const ENTRIES: &[Entry] = &[
    strict("pg_relation_size", 1..=2, Gives::BigInt, |call| sum(call, |_| false)),
    strict("pg_table_size", 1..=1, Gives::BigInt, |call| sum(call, |_| false)),
    strict("pg_total_relation_size", 1..=1, Gives::BigInt, |call| sum(call, |_| true)),
    strict("pg_indexes_size", 1..=1, Gives::BigInt, |call| {
        let (Cell::Int(all), Cell::Int(table)) = (sum(call, |_| true)?, sum(call, |_| false)?) else {
            return Ok(Cell::Null);
        };
        Ok((all - table).into())
    }),
    called("pg_database_size", 1..=1, Gives::BigInt, |call| {
        let spaces = call.access()?.world().tables().flat_map(|table| {
            table.spaces().map(|(_, space)| space.base_bytes() + space.delta_bytes()).collect::<Vec<_>>()
        });
        Ok(spaces.sum::<usize>().into())
    }),
    called("pg_tablespace_size", 1..=1, Gives::BigInt, |_| Ok(Cell::Int(0))),
    strict("pg_relation_filenode", 1..=1, Gives::Int, |call| Ok(call.class(0)?.into())),
    strict("pg_relation_filepath", 1..=1, Gives::Text, |_| Ok(Cell::Null)),
    strict("pg_tablespace_location", 1..=1, Gives::Text, |_| Ok("".into())),
    strict("pg_size_pretty", 1..=1, Gives::Text, |call| Ok(call.whole(0).map(pretty).into())),
];

/// The bytes of a class, and of its indexes if asked for.
fn sum(call: &Call<'_>, with_indexes: fn(&Class) -> bool) -> Result<Cell, SqlError> {
    let access = call.access()?;
    let Some(class) = call.class(0)?.and_then(|oid| access.objects().class(oid)) else {
        return Ok(Cell::Null);
    };
    let mut bytes = class_size(access.world(), class).1;
    if let (Kind::Table(def), true) = (&class.kind, with_indexes(class)) {
        let indexes = access.objects().classes.iter();
        let own = indexes.filter(|class| class.index().is_some_and(|shape| shape.table.id == def.id));
        bytes += own.map(|class| class_size(access.world(), class).1).sum::<usize>();
    }
    Ok(bytes.into())
}

/// `10 kB`: the largest unit that leaves fewer than 10 of the next, rounded half up.
fn pretty(bytes: i128) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if bytes.abs() < 10 * 1024 {
        return format!("{bytes} bytes");
    }
    // Twice the size in the unit at hand, so that the last step can round.
    let mut halves = bytes / 512;
    for unit in UNITS {
        if halves.abs() < 20 * 1024 - 1 {
            return format!("{} {unit}", (halves + halves.signum()) / 2);
        }
        halves /= 1024;
    }
    format!("{} PB", (halves + halves.signum()) / 2)
}
