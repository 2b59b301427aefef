// SPDX-License-Identifier: Apache-2.0
//! The log and who follows it: places, tokens, promotion.

use super::{Call, Entry, Gives, called, strict};
use crate::catalog::CatalogAccess;
use crate::catalog::rows::Cell;
use crate::error::{SqlError, SqlState};
use crate::rights::insufficient;
use crate::token::SnapshotToken;
use crate::upstream::PromotionLoss;
use coeval_store::log::Lsn;
use coeval_store::{LogTime, Store};
use coeval_txn::Version;

pub(super) const ENTRIES: &[Entry] = &[
    called("pg_is_in_recovery", 0..=0, Gives::Bool, |call| {
        let store = call.access()?.store();
        // A primary that was superseded takes no writes either, nor does what is left of a damaged one: who looks for one that does goes on looking.
        Ok((store.is_following() || store.superseded_by().is_some() || store.is_salvaged()).into())
    }),
    called("pg_current_wal_lsn", 0..=0, Gives::Place, |call| written(call.access()?)),
    called("pg_current_wal_insert_lsn", 0..=0, Gives::Place, |call| written(call.access()?)),
    called("pg_current_wal_flush_lsn", 0..=0, Gives::Place, |call| flushed(call.access()?)),
    called("pg_is_wal_replay_paused", 0..=0, Gives::Bool, |call| {
        Ok(replica(call.access()?)?.is_showing_paused().into())
    }),
    called("pg_get_wal_replay_pause_state", 0..=0, Gives::Text, |call| {
        let is_paused = replica(call.access()?)?.is_showing_paused();
        Ok((if is_paused { "paused" } else { "not paused" }).into())
    }),
    called("pg_wal_replay_pause", 0..=0, Gives::Text, |call| pause(call, None)),
    called("pg_wal_replay_resume", 0..=0, Gives::Text, resume),
    strict("coeval_wal_replay_until", 1..=1, Gives::Text, |call| {
        let version = call.int(0).and_then(|version| u64::try_from(version).ok()).unwrap_or_default();
        pause(call, Some(Version::new(version)))
    }),
    called("pg_last_wal_receive_lsn", 0..=0, Gives::Place, |call| received(call.access()?)),
    called("pg_last_wal_replay_lsn", 0..=0, Gives::Place, |call| replayed(call.access()?)),
    called("pg_last_xact_replay_timestamp", 0..=0, Gives::Time, |call| replayed_time(call.access()?)),
    strict("pg_promote", 0..=2, Gives::Bool, |call| promote(call, "pg_promote", PromotionLoss::Refused)),
    called("coeval_promote_accepting_loss", 0..=0, Gives::Bool, |call| {
        promote(call, "coeval_promote_accepting_loss", PromotionLoss::Accepted)
    }),
    strict("pg_create_physical_replication_slot", 1..=3, Gives::Text, create_slot),
    strict("pg_drop_replication_slot", 1..=1, Gives::Text, drop_slot),
    called("coeval_snapshot_token", 0..=0, Gives::Text, token),
];

/// The end of the log that this database writes.
fn written(access: &CatalogAccess) -> Result<Cell, SqlError> {
    own_log(access).map(|(end, _)| end.into())
}

/// Up to where that is durable.
fn flushed(access: &CatalogAccess) -> Result<Cell, SqlError> {
    own_log(access).map(|(_, durable)| durable.into())
}

/// Up to where a replica has the log durably; NULL elsewhere.
fn received(access: &CatalogAccess) -> Result<Cell, SqlError> {
    let store = access.store();
    let position = store.log_position().filter(|_| store.is_following());
    Ok(position.map(|(_, durable)| durable).into())
}

/// Up to where readers of a replica see the log; NULL elsewhere.
fn replayed(access: &CatalogAccess) -> Result<Cell, SqlError> {
    let store = access.store();
    let position = store.shown_position().filter(|_| store.is_following());
    Ok(position.into())
}

/// The time of the last commit that a replica has taken, to a hundredth of a second; NULL elsewhere, and before the first.
fn replayed_time(access: &CatalogAccess) -> Result<Cell, SqlError> {
    let store = access.store();
    let time = Some(store.log_time()).filter(|time| store.is_following() && *time != LogTime::ZERO);
    Ok(time.and_then(|time| i64::try_from(time.micros()).ok()).into())
}

fn own_log(access: &CatalogAccess) -> Result<(Lsn, Lsn), SqlError> {
    let store = access.store();
    let refused = |message| SqlError::new(SqlState::ObjectNotInPrerequisiteState, message);
    if store.is_following() {
        return Err(refused("recovery is in progress")
            .with_hint("WAL control functions cannot be executed on a replica."));
    }
    store.log_position().ok_or_else(|| refused("a database in memory has no log"))
}

/// The store, if it is a replica's.
fn replica(access: &CatalogAccess) -> Result<&Store, SqlError> {
    let store = access.store();
    if store.is_following() {
        return Ok(store);
    }
    let message = "recovery is not in progress";
    Err(SqlError::new(SqlState::ObjectNotInPrerequisiteState, message)
        .with_hint("Recovery control functions can only be executed on a replica."))
}

/// Has a replica show nothing beyond a version, or what it shows now.
fn pause(call: &Call<'_>, at: Option<Version>) -> Result<Cell, SqlError> {
    let access = call.access()?;
    let name = if at.is_some() { "coeval_wal_replay_until" } else { "pg_wal_replay_pause" };
    check_superuser(access, name)?;
    replica(access)?.pause_showing(at)?;
    Ok("".into())
}

/// Has a replica show everything again.
fn resume(call: &Call<'_>) -> Result<Cell, SqlError> {
    let access = call.access()?;
    check_superuser(access, "pg_wal_replay_resume")?;
    replica(access)?.resume_showing()?;
    Ok("".into())
}

/// # Errors
/// `42501` if the role is no superuser.
pub(super) fn check_superuser(access: &CatalogAccess, function: &str) -> Result<(), SqlError> {
    if access.rights().is_superuser() {
        return Ok(());
    }
    Err(insufficient(format!("permission denied for function {function}")))
}

/// PostgreSQL's arguments `wait` and `wait_seconds` of a promotion. They change nothing: whoever asks is answered before the server begins
/// anew, which ends all sessions, and once others have promised, which takes some seconds at most.
///
/// # Errors
/// `22003` for a time that PostgreSQL does not take.
fn check_wait_seconds(call: &Call<'_>) -> Result<(), SqlError> {
    if call.int(1).is_some_and(|seconds| seconds <= 0) {
        let message = "\"wait_seconds\" must not be negative or zero";
        return Err(SqlError::new(SqlState::NumericValueOutOfRange, message));
    }
    Ok(())
}

/// Asks the server to make the replica that it serves a database of its own, once others have promised what that needs. True as
/// soon as it has been asked.
fn promote(call: &Call<'_>, function: &str, loss: PromotionLoss) -> Result<Cell, SqlError> {
    let access = call.access()?;
    check_superuser(access, function)?;
    if let Some(timeline) = access.store().superseded_by() {
        let message = format!("this was a primary, and timeline {timeline} was promised to another machine");
        return Err(SqlError::new(SqlState::ObjectNotInPrerequisiteState, message).with_hint(
            "Start it with --replica-of that one. If that one is lost for good: stop this server; coeval promote DIR \
             --accept-loss makes it the primary again.",
        ));
    }
    replica(access)?;
    check_wait_seconds(call)?;
    let refused = |message| SqlError::new(SqlState::ObjectNotInPrerequisiteState, message);
    let upstream = access.upstream().filter(|_| access.registry().can_promote()).ok_or_else(|| {
        refused("no server has this replica that could promote it")
            .with_hint("Close it and run coeval promote on its directory.")
    })?;
    upstream.stand_for_promotion(loss)?;
    access.registry().ask_to_promote();
    Ok(true.into())
}

/// Makes a slot. The log is kept from here on, whether or not that was asked for: a slot that keeps nothing is of no use.
fn create_slot(call: &Call<'_>) -> Result<Cell, SqlError> {
    let access = call.access()?;
    check_replication(access)?;
    let name = call.text(0).unwrap_or_default();
    let place = access.store().create_slot(name)?;
    Ok(format!("({name},{})", place.to_wal_text()).into())
}

fn drop_slot(call: &Call<'_>) -> Result<Cell, SqlError> {
    let access = call.access()?;
    check_replication(access)?;
    access.store().drop_slot(call.text(0).unwrap_or_default())?;
    Ok("".into())
}

/// Refuses all but superusers and roles with REPLICATION, who may have the log kept.
fn check_replication(access: &CatalogAccess) -> Result<(), SqlError> {
    if access.may_replicate() {
        return Ok(());
    }
    Err(insufficient("must be superuser or replication role to use replication slots".to_owned()))
}

/// What finds the statement's snapshot, or a newer one, on another machine.
fn token(call: &Call<'_>) -> Result<Cell, SqlError> {
    let access = call.access()?;
    let token = SnapshotToken::of(access.store(), access.world().version());
    let token = token.ok_or_else(|| {
        let message = "a database in memory has no replicas that a token could be for";
        SqlError::new(SqlState::ObjectNotInPrerequisiteState, message)
    })?;
    Ok(token.to_string().into())
}
