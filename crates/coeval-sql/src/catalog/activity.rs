// SPDX-License-Identifier: Apache-2.0
//! `pg_stat_activity`: the sessions of the server's clients.

use super::Source;
use super::roles::role_oid;
use super::rows::{Cell, Table};
use crate::oids;
use crate::registry::{ActivityState, Registered};

/// Shown in place of what another role's session does.
const HIDDEN: &str = "<insufficient privilege>";

/// Fills the relation; whether this module knows it.
pub(super) fn fill(name: &str, table: &mut Table, source: &Source<'_>) -> bool {
    if name != "pg_stat_activity" {
        return false;
    }
    let rights = source.rights();
    for session in source.engine.registry().all() {
        if rights.is_monitor() || rights.include(session.principal().as_owner()) {
            push(table, &session);
        } else {
            push_hidden(table, &session);
        }
    }
    true
}

/// What everybody sees of a session.
fn who(session: &Registered) -> [(&'static str, Cell); 6] {
    let client = session.client();
    [
        ("datid", oids::DATABASE.into()),
        ("datname", client.database.as_str().into()),
        ("pid", session.pid().into()),
        ("usesysid", role_oid(&client.user).into()),
        ("usename", client.user.as_str().into()),
        ("application_name", session.activity().application.into()),
    ]
}

fn push_hidden(table: &mut Table, session: &Registered) {
    table.push_all(who(session).into_iter().chain([("query", HIDDEN.into())]));
}

/// What a session waits for, in PostgreSQL's words: the kind, and what it is.
fn wait_event(session: &Registered, state: ActivityState) -> Option<(&'static str, &'static str)> {
    match state {
        ActivityState::Active if session.waits_for_lock() => Some(("Lock", "tuple")),
        ActivityState::Active if session.awaits_replicas() => Some(("IPC", "SyncRep")),
        ActivityState::Active if session.waits_for_turn() => Some(("IPC", "QueryTurn")),
        ActivityState::Active => None,
        ActivityState::Idle | ActivityState::IdleInTransaction | ActivityState::IdleInFailedTransaction => {
            Some(("Client", "ClientRead"))
        }
    }
}

fn push(table: &mut Table, session: &Registered) {
    let (client, activity) = (session.client(), session.activity());
    let waits = wait_event(session, activity.state);
    let began = activity.transaction_micros.or(match activity.state {
        ActivityState::Active => activity.statement_micros,
        ActivityState::Idle | ActivityState::IdleInTransaction | ActivityState::IdleInFailedTransaction => {
            None
        }
    });
    table.push_all(who(session).into_iter().chain([
        ("client_addr", client.address.map(|address| address.ip().to_canonical().to_string()).into()),
        ("client_port", client.address.map(|address| i32::from(address.port())).into()),
        ("backend_start", session.started_micros().into()),
        ("xact_start", began.into()),
        ("query_start", activity.statement_micros.into()),
        ("state_change", activity.state_micros.into()),
        ("wait_event_type", waits.map(|(kind, _)| kind).into()),
        ("wait_event", waits.map(|(_, event)| event).into()),
        ("state", activity.state.name().into()),
        ("backend_xid", Cell::Null),
        ("backend_xmin", Cell::Null),
        ("query", activity.statement.into()),
        ("backend_type", "client backend".into()),
    ]));
}
