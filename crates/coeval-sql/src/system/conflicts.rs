// SPDX-License-Identifier: Apache-2.0
//! `coeval_conflicts`: who was refused lately, against whom, where and why.

use super::rows::{Rows, count, text};
use crate::catalog::Source;
use crate::error::SqlState;
use crate::rights::Rights;
use coeval_store::{ColumnType, Origin, Store, ValueRef};

const TEXT: ColumnType = ColumnType::Text;
const INT: ColumnType = ColumnType::Int;
const BIGINT: ColumnType = ColumnType::BigInt;

/// One row for each of the latest refusals, statements that ran again included. What statements said is shown to
/// superusers alone.
pub(super) fn conflicts(store: &Store, source: &Source<'_>) -> Rows {
    let mut rows = Rows::new(&[
        ("at", ColumnType::TimestampTz),
        ("sqlstate", TEXT),
        ("isolation", TEXT),
        ("reason", TEXT),
        ("table_name", TEXT),
        ("key", TEXT),
        ("pid", INT),
        ("transaction", BIGINT),
        ("statement", TEXT),
        ("winner_pid", INT),
        ("winner_transaction", BIGINT),
        ("winner_statement", TEXT),
        ("declared_read_only", ColumnType::Boolean),
    ]);
    let rights = Rights::of(source.settings.principal(), source.transaction.catalog());
    let shows_statements = rights.is_superuser();
    for conflict in store.recent_conflicts() {
        let (loser, winner) = (&conflict.loser, conflict.cause.winner.as_ref());
        let of_winner = winner.and_then(|winner| winner.origin.as_ref());
        let statement = |origin: Option<&Origin>| match origin.filter(|_| shows_statements) {
            Some(origin) => ValueRef::Text(origin.statement()).to_owned(),
            None => ValueRef::Null.to_owned(),
        };
        let (of_loser, won) = (statement(loser.origin.as_ref()), statement(of_winner));
        let pid = |origin: Option<&Origin>| {
            origin.map_or(ValueRef::Null, |origin| ValueRef::Int32(origin.session()))
        };
        rows.push([
            ValueRef::Int64(conflict.at_micros),
            text(SqlState::SerializationFailure.code()),
            text(&conflict.isolation.to_string().to_lowercase()),
            text(conflict.cause.reason.name()),
            conflict.cause.place.table.as_deref().map_or(ValueRef::Null, text),
            conflict.cause.place.key.as_deref().map_or(ValueRef::Null, text),
            pid(loser.origin.as_ref()),
            count(loser.transaction.get()),
            of_loser.borrow(),
            pid(of_winner),
            winner.map_or(ValueRef::Null, |winner| count(winner.transaction.get())),
            won.borrow(),
            ValueRef::Boolean(conflict.has_declared_reader()),
        ]);
    }
    rows
}
