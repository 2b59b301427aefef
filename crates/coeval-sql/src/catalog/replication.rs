// SPDX-License-Identifier: Apache-2.0
//! `pg_stat_replication`: the sessions that follow the log, and how far each has come.

use super::Source;
use super::functions::wal_place;
use super::roles::role_oid;
use super::rows::{Cell, Table};
use crate::followers::Progress;
use crate::registry::Registered;
use coeval_store::log::Lsn;

/// Fills the relation; whether this module knows it.
pub(super) fn fill(name: &str, table: &mut Table, source: &Source<'_>) -> bool {
    if name != "pg_stat_replication" {
        return false;
    }
    let rights = source.rights();
    for session in source.engine.registry().all() {
        let Some(progress) = source.engine.followers().progress(session.pid()) else { continue };
        let mut cells = who(&session);
        if rights.include(session.principal().as_owner()) {
            cells.extend(how_far(&session, &progress));
        }
        table.push_all(cells);
    }
    true
}

/// What everybody sees.
fn who(session: &Registered) -> Vec<(&'static str, Cell)> {
    let client = session.client();
    vec![
        ("pid", session.pid().into()),
        ("usesysid", role_oid(&client.user).into()),
        ("usename", client.user.as_str().into()),
        ("application_name", session.activity().application.into()),
    ]
}

/// What its owner sees, and who may see everything.
fn how_far(session: &Registered, progress: &Progress) -> [(&'static str, Cell); 11] {
    let address = session.client().address;
    let place = |place: Lsn| Cell::from((place > Lsn::START).then(|| wal_place(place)));
    let state = if progress.applied >= progress.sent { "streaming" } else { "catchup" };
    [
        ("client_addr", address.map(|address| address.ip().to_canonical().to_string()).into()),
        ("client_port", address.map(|address| i32::from(address.port())).into()),
        ("backend_start", session.started_micros().into()),
        ("state", state.into()),
        ("sent_lsn", place(progress.sent)),
        ("write_lsn", place(progress.written)),
        ("flush_lsn", place(progress.flushed)),
        ("replay_lsn", place(progress.applied)),
        ("sync_priority", 0.into()),
        ("sync_state", "async".into()),
        ("reply_time", (progress.replied_micros > 0).then_some(progress.replied_micros).into()),
    ]
}
