// SPDX-License-Identifier: Apache-2.0
//! The steps of a statement within its transaction, whoever runs it: what the transaction is given before, how often the statement is run,
//! and what comes behind its last word.

use super::block::{Block, IsQuery};
use crate::cancel::CancelHandle;
use crate::cluster::CommitMode;
use crate::context::StatementContext;
use crate::engine::Engine;
use crate::error::SqlError;
use crate::rights::{Authority, Object, Rights};
use crate::server_part::ServerPart;
use crate::settings::Settings;
use crate::spread_part::{self, Declared, SpreadPart};
use crate::tique;
use coeval_store::{LockWaits, Origin, Priority, Privilege, StoreError, SynchronousCommit, Transaction};
use coeval_txn::Version;
use coeval_txn::ssi::SessionFloor;
use std::sync::Arc;

/// How often a statement looks at its rows again because others have changed what it locked. Each time it has more
/// of them locked, so that only rows which it did not meet before can make it look again.
const LOOKS_MAX: usize = 1_000;

/// Readies a transaction for its next statement.
pub(super) fn begin_statement(
    transaction: &mut Transaction,
    settings: &Settings,
    cancel: &CancelHandle,
    sql: &str,
) -> Result<(), StoreError> {
    transaction.note_origin(Origin::new(settings.backend_pid(), sql));
    transaction.set_lock_waits(LockWaits {
        timeout: settings.lock_timeout(),
        deadlock_after: settings.deadlock_timeout(),
        interrupt: Some(cancel.interrupt()),
    });
    transaction.begin_statement()
}

/// Gives a transaction the session's priority, if it has one.
pub(super) fn claim(
    priority: &mut Option<Priority>,
    settings: &Settings,
    engine: &Engine,
    transaction: &mut Transaction,
) {
    if settings.has_priority() {
        transaction.claim(priority.get_or_insert_with(|| engine.store().priority()));
        let rights = Rights::of(settings.principal(), Authority::of(transaction, engine.store()));
        if !rights.is_superuser() {
            let changes = [Privilege::Insert, Privilege::Update, Privilege::Delete];
            transaction.reserve_reads_of(move |def| rights.require_any(Object::Table(def), &changes).is_ok());
        }
    } else if priority.is_some() {
        *priority = None;
    }
}

/// Runs a statement; if rows that it has locked were changed meanwhile, again on a snapshot that shows the change.
pub(super) fn until_settled<T>(
    context: &mut StatementContext<'_>,
    body: &mut impl FnMut(&mut StatementContext<'_>) -> Result<T, SqlError>,
) -> Result<T, SqlError> {
    let mut looks = 0;
    loop {
        looks += 1;
        let outcome = body(context)
            .and_then(|value| context.transaction.end_statement().map(|()| value).map_err(SqlError::from))
            .and_then(|value| check_spread(context).map(|()| value));
        match outcome {
            Err(_)
                if context.transaction.take_restart()
                    && looks < LOOKS_MAX
                    && !context.spread.lock().is_changing() => {}
            outcome => return outcome,
        }
    }
}

/// Sees that a transaction that uses tables of a cluster is one that there can be.
///
/// # Errors
/// `0A000`.
fn check_spread(context: &StatementContext<'_>) -> Result<(), SqlError> {
    context.spread.lock().check(context.transaction, || context.tique.lock().has_written())
}

/// Has a block that is about to take its snapshot find what its session has loaded into tables of a cluster, or seen there; not one that
/// may be about to load: that would wait for each load before.
///
/// # Errors
/// That of a cancelled statement.
pub(super) fn await_load(
    (block, is_query): (&Block, IsQuery),
    part: &mut SpreadPart,
    engine: &Engine,
    floor: &mut SessionFloor,
) -> Result<(), SqlError> {
    let place = block.statement_place();
    let reads = is_query == IsQuery::Yes || place.declared == Declared::Reader;
    if reads
        && !block.has_snapshot()
        && let Some(version) = spread_part::await_load(part, engine, place)?
    {
        floor.note_snapshot(version);
    }
    Ok(())
}

/// What a statement outside a block does behind its last word, before its transaction commits.
pub(super) fn before_commit<T>(
    context: &mut StatementContext<'_>,
    settled: Result<T, SqlError>,
) -> Result<T, SqlError> {
    tique::end_statement(context, settled).and_then(|value| {
        let temporary = Arc::clone(context.settings.temporary());
        temporary.before_commit(context.transaction).map(|()| value)
    })
}

/// Before a transaction's own commit: has that be one with its load into tables of a cluster, if it has both.
///
/// # Errors
/// `0A000` if it uses tables of other servers, too; those of [`spread_part::name_load`]. It is not to be committed.
pub(super) fn name_load(
    part: &mut SpreadPart,
    servers: &ServerPart,
    engine: &Engine,
    transaction: &mut Transaction,
) -> Result<(), SqlError> {
    if part.is_one_with_rows(transaction) && servers.is_touched() {
        return Err(spread_part::servers_and_loads());
    }
    spread_part::name_load(part, engine, transaction)
}

/// Commits what a transaction has changed on the cluster, once its own commit has come to this; it is rolled back if that has failed. What
/// goes with rows waits until these are published, if their version is left to be waited for.
///
/// # Errors
/// That of the transaction's commit; those of [`SpreadPart::commit`].
pub(super) fn end_spread<T>(
    part: &mut SpreadPart,
    engine: &Engine,
    settings: &Settings,
    (outcome, left): (Result<T, SqlError>, Option<Version>),
) -> Result<T, SqlError> {
    let value = outcome.inspect_err(|error| part.fail(error.state))?;
    let mode = match settings.synchronous_commit() {
        SynchronousCommit::Off | SynchronousCommit::Local => CommitMode::Asked,
        SynchronousCommit::RemoteWrite | SynchronousCommit::On | SynchronousCommit::RemoteApply => {
            CommitMode::Decided
        }
    };
    part.commit(engine, mode, left).map(|()| value)
}
