// SPDX-License-Identifier: Apache-2.0
//! Of which age spread tables are that a statement reads beside rows.
//!
//! At SERIALIZABLE rows say it: each version of them names an epoch, and who reads rows sees spread tables up to that one, on whatever node.
//! So rows and spread tables are of one age, and all readers have one order with commits of rows and with loads; the proof is in
//! `coeval-txn`'s `epochs/cluster/README.md`, "Rows and bricks". No reader waits for a load.
//!
//! The primary has its rows name how far loads have come a few times in a second, so these are seen beside rows a moment later. A session
//! is to find what it has loaded, and what it has seen without rows: a block that is declared READ ONLY, or begins with a query, waits
//! before it begins until rows name that, and a statement outside blocks begins again on such rows. What is waited for is the next of these commits, and on a replica that it has come
//! here; and not while an older load is open, or a delete, which keep this one from being seen by anybody.

use crate::cluster::ClusterAges;
use crate::engine::Engine;
use crate::error::{SqlError, SqlState};
use coeval_store::{AccessMode, Transaction};
use coeval_txn::{Epoch, Isolation, Version};
use std::time::{Duration, Instant};

/// So long a session waits at most for rows that name what it has loaded or seen. If the primary is away, none come.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Whether a reader may be told to begin again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// It is run again by itself, or by a client who has to be ready for that.
    May,
    /// It was declared READ ONLY: it is not refused.
    No,
}

/// What the rows of a transaction name, if they name one.
///
/// # Errors
/// If the row that has it is damaged.
pub(crate) fn of_rows(transaction: &Transaction) -> Result<Option<Epoch>, SqlError> {
    Ok(transaction.world().brick_age()?)
}

/// The age of what a transaction sees of spread tables, in a session that has loaded or seen what `floor` names.
///
/// # Errors
/// `40001` if who begins now would find that, and this one may begin again; `57P03` if no rows name an age yet.
pub(crate) fn of_reader(
    engine: &Engine,
    ages: &dyn ClusterAges,
    transaction: &Transaction,
    (floor, again): (Epoch, Again),
) -> Result<Epoch, SqlError> {
    let age = of_rows(transaction)?;
    if let Some(age) = age
        && (age >= floor || again == Again::No)
    {
        return Ok(age);
    }
    match (until_named(engine, ages, floor)?, age) {
        (Some(_), _) => Err(older_than_seen()),
        (None, Some(age)) => Ok(age),
        (None, None) => Err(none_named()),
    }
}

/// Waits until who begins now at SERIALIZABLE has rows that name this age or a later one: the version of these rows. Nothing if that takes
/// too long, or this node itself has not come so far.
///
/// # Errors
/// That of a cancelled statement.
pub(crate) fn until_named(
    engine: &Engine,
    ages: &dyn ClusterAges,
    wanted: Epoch,
) -> Result<Option<Version>, SqlError> {
    let begun = Instant::now();
    loop {
        let newest = engine.store().begin(Isolation::Serializable, AccessMode::ReadOnly);
        if of_rows(&newest)?.is_some_and(|age| age >= wanted) {
            return Ok(Some(newest.begin_version()));
        }
        drop(newest);
        let is_open = ages.newest().is_none_or(|newest| newest < wanted);
        if is_open || begun.elapsed() >= PATIENCE {
            return Ok(None);
        }
        engine.runtime().block_on(async {
            tokio::time::sleep(PAUSE).await;
            Ok(())
        })?;
    }
}

/// The transaction has moved to newer rows since it has read spread tables.
pub(crate) fn moved() -> SqlError {
    let message =
        "rows were changed while the transaction waited, which had read tables spread over a cluster before";
    SqlError::new(SqlState::SerializationFailure, message).with_hint("Run the transaction again.")
}

fn older_than_seen() -> SqlError {
    let message = "the transaction's rows are older than what its session has loaded into tables spread over a cluster, or seen there";
    SqlError::new(SqlState::SerializationFailure, message).with_hint("Run the transaction again.")
}

fn none_named() -> SqlError {
    let message = "it is not known yet which loads of the cluster are of the age of the rows here";
    SqlError::new(SqlState::CannotConnectNow, message).with_hint(
        "The primary says so while it is a node of the cluster. Try again, or read at REPEATABLE READ.",
    )
}
