// SPDX-License-Identifier: Apache-2.0
//! `coeval_safe_snapshots`: how far read safe snapshots are behind, because of whom, who took them and who could not.

use super::rows::{Rows, count, integer};
use crate::registry::Registry;
use coeval_store::{ColumnType, Store, ValueRef};
use std::time::Duration;

const BIGINT: ColumnType = ColumnType::BigInt;

/// One row. What is counted, is counted since the database was opened.
pub(super) fn safe_snapshots(store: &Store, registry: &Registry) -> Rows {
    let mut rows = Rows::new(&[
        (BIGINT, "version boundary commits_behind age_us holder_transaction"),
        (ColumnType::Int, "holder_pid"),
        (BIGINT, "taken fallbacks_floor fallbacks_certifying made making_us conflicts"),
        (BIGINT, "conflicts_dangerous conflicts_declared_read_only"),
    ]);
    let (lag, counts, conflicts) =
        (store.snapshot_lag(), store.safe_snapshot_counts(), store.conflict_counts());
    let holder = lag.holder.filter(|_| lag.boundary < lag.published).map(|holder| holder.transaction);
    let micros = |time: Duration| count(time.as_micros());
    rows.push([
        count(lag.published.get()),
        count(lag.boundary.get()),
        count(lag.commits),
        micros(lag.age),
        holder.map_or(ValueRef::Null, |holder| count(holder.get())),
        integer(holder.and_then(|holder| registry.session_of(holder))),
        count(counts.taken),
        count(counts.behind_floor),
        count(counts.while_certifying),
        count(counts.made),
        micros(counts.making),
        count(conflicts.all),
        count(conflicts.dangerous),
        count(conflicts.with_declared_reader),
    ]);
    rows
}
