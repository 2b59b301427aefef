// SPDX-License-Identifier: Apache-2.0
//! `coeval_lock_waits`: which session waits for which other one, and for what.

use super::rows::{Rows, integer, text};
use crate::advisory::AdvisoryKey;
use crate::catalog::Source;
use crate::lock_graph::{session_of_advisory, session_of_rows, waits};
use crate::rights::Object;
use coeval_store::{ColumnType, Store, ValueRef};
use coeval_txn::{LockState, LockStrength};

const TEXT: ColumnType = ColumnType::Text;
const INT: ColumnType = ColumnType::Int;

fn columns() -> Rows {
    Rows::new(&[
        (INT, "pid blocked_by"),
        (TEXT, "kind table_name key wanted held"),
        (ColumnType::Boolean, "granted"),
    ])
}

struct Shown<'a> {
    waiter: Option<i32>,
    blocker: Option<i32>,
    kind: &'a str,
    table: Option<&'a str>,
    key: Option<&'a str>,
    wanted: String,
    held: String,
    state: LockState,
}

fn push(rows: &mut Rows, shown: &Shown<'_>) {
    rows.push([
        integer(shown.waiter),
        integer(shown.blocker),
        text(shown.kind),
        shown.table.map_or(ValueRef::Null, text),
        shown.key.map_or(ValueRef::Null, text),
        text(&shown.wanted),
        text(&shown.held),
        ValueRef::Boolean(shown.state == LockState::Granted),
    ]);
}

/// One row for each pair of a session that waits and one that it waits for. The locked row is shown to roles that may read its
/// table. A session of the embedding program has no number.
pub(super) fn lock_waits(store: &Store, source: &Source<'_>) -> Rows {
    let mut rows = columns();
    let rights = source.rights();
    let world = rights.authority().seen();
    let may_read =
        |space| world.table(space).is_some_and(|table| rights.may_read(Object::Table(table.def())));
    let of_rows = store.row_locks();
    for wait in waits(&of_rows) {
        let place = world.place_of(wait.key.0, &wait.key.1);
        let is_shown = rights.is_superuser() || place.space.is_some_and(may_read);
        push(
            &mut rows,
            &Shown {
                waiter: session_of_rows(wait.waiter.0),
                blocker: session_of_rows(wait.blocker.0),
                kind: "row",
                table: place.table.as_deref().filter(|_| is_shown),
                key: place.key.as_deref().filter(|_| is_shown),
                wanted: wait.waiter.1.to_string(),
                held: wait.blocker.1.to_string(),
                state: wait.state,
            },
        );
    }
    let advisory = source.engine.advisory_locks().list();
    let sessions = source.engine.registry().all();
    let session = |owner| session_of_advisory(&sessions, owner);
    for wait in waits(&advisory) {
        let key = match wait.key {
            AdvisoryKey::Number(number) => number.to_string(),
            AdvisoryKey::Pair(one, two) => format!("{one}, {two}"),
        };
        let mode = |strength| if strength == LockStrength::Share { "SHARE" } else { "EXCLUSIVE" };
        push(
            &mut rows,
            &Shown {
                waiter: session(wait.waiter.0),
                blocker: session(wait.blocker.0),
                kind: "advisory",
                table: None,
                key: Some(&key),
                wanted: mode(wait.waiter.1).to_owned(),
                held: mode(wait.blocker.1).to_owned(),
                state: wait.state,
            },
        );
    }
    rows
}
