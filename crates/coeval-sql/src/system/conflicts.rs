// SPDX-License-Identifier: Apache-2.0
//! `coeval_conflicts`: who was refused lately, against whom, where and why.

use super::rows::{Rows, count, text};
use crate::catalog::Source;
use crate::error::SqlState;
use crate::rights::Object;
use coeval_store::{ColumnType, Origin, Store, ValueRef};

const TEXT: ColumnType = ColumnType::Text;
const INT: ColumnType = ColumnType::Int;
const BIGINT: ColumnType = ColumnType::BigInt;

/// One row for each of the latest refusals, statements that ran again included. The statement's text is shown to roles that have
/// the rights of its session's role; the place of the conflict to roles that may read the table.
pub(super) fn conflicts(store: &Store, source: &Source<'_>) -> Rows {
    let mut rows = Rows::new(&[
        (ColumnType::TimestampTz, "at"),
        (TEXT, "sqlstate isolation reason table_name key"),
        (INT, "pid"),
        (BIGINT, "transaction"),
        (TEXT, "statement"),
        (INT, "winner_pid"),
        (BIGINT, "winner_transaction"),
        (TEXT, "winner_statement"),
        (ColumnType::Boolean, "declared_read_only"),
    ]);
    let rights = source.rights();
    let registry = source.engine.registry();
    let is_of_own = |origin: &&Origin| {
        let session = || registry.find(origin.session());
        rights.is_monitor() || session().is_some_and(|session| rights.include(session.principal().as_owner()))
    };
    let world = rights.authority().seen();
    let may_read =
        |space| world.table(space).is_some_and(|table| rights.may_read(Object::Table(table.def())));
    for conflict in store.recent_conflicts() {
        let (loser, winner) = (&conflict.loser, conflict.cause.winner.as_ref());
        let of_winner = winner.and_then(|winner| winner.origin.as_ref());
        let statement = |origin: Option<&Origin>| match origin.filter(is_of_own) {
            Some(origin) => ValueRef::Text(origin.statement()).to_owned(),
            None => ValueRef::Null.to_owned(),
        };
        let (of_loser, won) = (statement(loser.origin.as_ref()), statement(of_winner));
        let pid = |origin: Option<&Origin>| {
            origin.map_or(ValueRef::Null, |origin| ValueRef::Int32(origin.session()))
        };
        let place = Some(&conflict.cause.place)
            .filter(|place| rights.is_superuser() || place.space.is_none_or(may_read));
        let table = place.and_then(|place| place.table.as_deref());
        let key = place.and_then(|place| place.key.as_deref());
        rows.push([
            ValueRef::Int64(conflict.at_micros),
            text(SqlState::SerializationFailure.code()),
            text(&conflict.isolation.to_string().to_lowercase()),
            text(conflict.cause.reason.name()),
            table.map_or(ValueRef::Null, text),
            key.map_or(ValueRef::Null, text),
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
