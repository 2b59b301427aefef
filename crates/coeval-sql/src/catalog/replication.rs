// SPDX-License-Identifier: Apache-2.0
//! `pg_stat_replication`: the sessions that follow the log, and how far each has come. `pg_stat_wal_receiver`: how this
//! database follows another one. `pg_replication_slots`: the log that is kept for replicas, also absent ones. `pg_stat_archiver`: how far the
//! archive is.

use super::Source;
use super::roles::role_oid;
use super::rows::{Cell, Table};
use crate::followers::Lags;
use crate::registry::Registered;
use coeval_store::log::Lsn;
use coeval_store::{LogTime, ReplicaRole, ReplicaStanding};

/// Fills the relation; whether this module knows it.
pub(super) fn fill(name: &str, table: &mut Table, source: &Source<'_>) -> bool {
    match name {
        "pg_stat_replication" => sessions(table, source),
        "pg_stat_wal_receiver" => receiver(table, source),
        "pg_replication_slots" => slots(table, source),
        "pg_stat_archiver" => archiver(table, source),
        _ => return false,
    }
    true
}

/// The slots: what is kept of the log for replicas.
fn slots(table: &mut Table, source: &Source<'_>) {
    let store = source.engine.store();
    let end = store.log_position().map_or(Lsn::START, |(end, _)| end);
    for slot in store.slots() {
        let kept = end.get().saturating_sub(slot.log.get());
        let bytes_max = store.slot_bytes_max().filter(|_| !slot.is_lost);
        let safe =
            bytes_max.map(|bytes_max| i64::try_from(bytes_max.saturating_sub(kept)).unwrap_or(i64::MAX));
        let is_over = bytes_max.is_some_and(|bytes_max| kept > bytes_max);
        let status = match (slot.is_lost, is_over) {
            (true, _) => "lost",
            (false, true) => "unreserved",
            (false, false) => "reserved",
        };
        let place = (!slot.is_lost).then_some(slot.log);
        let holder = source.engine.followers().by_slot(&slot.name).filter(|_| slot.is_active);
        table.push_all(vec![
            ("slot_name", slot.name.into()),
            ("slot_type", "physical".into()),
            ("temporary", false.into()),
            ("active", slot.is_active.into()),
            ("active_pid", holder.into()),
            ("restart_lsn", place.into()),
            ("wal_status", status.into()),
            ("safe_wal_size", safe.into()),
            ("two_phase", false.into()),
        ]);
    }
}

/// One row, as in PostgreSQL, also where nothing is archived.
fn archiver(table: &mut Table, source: &Source<'_>) {
    let status = source.engine.archiving().unwrap_or_default();
    let count = |count: u64| Cell::from(i64::try_from(count).unwrap_or(i64::MAX));
    table.push_all(vec![
        ("archived_count", count(status.sent)),
        ("last_archived_wal", status.archived.map(Lsn::to_wal_text).into()),
        ("last_archived_time", time(Some(status.archived_time))),
        ("failed_count", count(status.failures)),
        ("last_failed_time", time(status.last_failed)),
    ]);
}

/// NULL if that was never.
fn time(time: Option<LogTime>) -> Cell {
    let time = time.filter(|time| *time > LogTime::ZERO);
    time.and_then(|time| i64::try_from(time.micros()).ok()).into()
}

fn receiver(table: &mut Table, source: &Source<'_>) {
    let Some(status) = source.engine.upstream() else { return };
    let mut cells: Vec<(&'static str, Cell)> = vec![("pid", 0.into())];
    if source.rights().is_superuser() {
        let conninfo = format!("host={} port={}", status.host, status.port);
        cells.extend([
            ("status", status.state.name().into()),
            ("written_lsn", status.written.into()),
            ("flushed_lsn", status.flushed.into()),
            ("sender_host", status.host.into()),
            ("sender_port", i32::from(status.port).into()),
            ("conninfo", conninfo.into()),
            ("slot_name", status.slot.into()),
            ("last_msg_send_time", time(status.last_word.map(|word| word.sent))),
            ("last_msg_receipt_time", time(status.last_word.map(|word| word.received))),
            ("latest_end_lsn", status.last_word.map(|word| word.end).into()),
            ("latest_end_time", time(status.last_word.map(|word| word.end_sent))),
        ]);
    }
    table.push_all(cells);
}

fn sessions(table: &mut Table, source: &Source<'_>) {
    let rights = source.rights();
    for session in source.engine.registry().all() {
        let Some(standing) = source.engine.followers().standing(session.pid()) else { continue };
        let mut cells = who(&session);
        if rights.include(session.principal().as_owner()) {
            cells.extend(how_far(&session, &standing));
            let Lags { write, flush, replay } = source.engine.followers().lags(session.pid());
            cells.extend([
                ("write_lag", write.into()),
                ("flush_lag", flush.into()),
                ("replay_lag", replay.into()),
            ]);
        }
        table.push_all(cells);
    }
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
fn how_far(session: &Registered, standing: &ReplicaStanding) -> [(&'static str, Cell); 11] {
    let progress = &standing.progress;
    let (priority, role) = match standing.role {
        ReplicaRole::Asynchronous => (0, "async"),
        ReplicaRole::Synchronous(place) => (place, "sync"),
        ReplicaRole::Potential(place) => (place, "potential"),
        ReplicaRole::Quorum => (1, "quorum"),
    };
    let address = session.client().address;
    let place = |place: Lsn| Cell::from((place > Lsn::START).then_some(place));
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
        ("sync_priority", i32::try_from(priority).unwrap_or(i32::MAX).into()),
        ("sync_state", role.into()),
        ("reply_time", (progress.replied_micros > 0).then_some(progress.replied_micros).into()),
    ]
}
