// SPDX-License-Identifier: Apache-2.0
//! What SHOW coeval.snapshot_lag says: how far read safe snapshots are behind what is here, and what holds them back.
//!
//! On a primary that is the transaction at SERIALIZABLE with the oldest snapshot. On a replica it is the first of these:
//!
//! | state of the replica | what is reported as holding them back |
//! |---|---|
//! | replay is paused | the pause |
//! | it does not follow, for the moment or for good | the connection, or the replica |
//! | the primary's log ends further on | what is not applied here |
//! | the newest of what is applied is not shown | commits that the primary has not published |
//! | the safe snapshot lacks what is shown | the archive, or transactions on the primary |
//!
//! Everybody may ask, so it does not say where the primary is; `pg_stat_wal_receiver` tells superusers.

use crate::registry::Registry;
use crate::upstream::{Upstream, UpstreamState};
use coeval_store::{SnapshotLag, Store};

/// See the module. `upstream` knows where a replica stands that is served.
pub(super) fn shown(store: &Store, registry: &Registry, upstream: Option<&dyn Upstream>) -> String {
    let lag = store.snapshot_lag();
    let behind = format!("{} commits, {} ms", lag.commits, lag.age.as_millis());
    let holder = if store.is_following() {
        Standing::of(store, &lag, upstream).holder()
    } else {
        holder_on_primary(&lag, registry)
    };
    match holder {
        Some(holder) => format!("{behind}, held by {holder}"),
        None => behind,
    }
}

fn holder_on_primary(lag: &SnapshotLag, registry: &Registry) -> Option<String> {
    let holder = lag.holder.filter(|_| lag.boundary < lag.published)?;
    Some(match registry.session_of(holder.transaction) {
        Some(pid) => format!("transaction {} of process {pid}", holder.transaction),
        None => format!("transaction {}", holder.transaction),
    })
}

/// Where a replica stands.
#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    is_paused: bool,
    /// None if nobody follows for it.
    state: Option<UpstreamState>,
    /// Of the primary's log, when it was last heard of.
    bytes_missing: u64,
    has_unshown: bool,
    is_safe_behind: bool,
}

impl Standing {
    fn of(store: &Store, lag: &SnapshotLag, upstream: Option<&dyn Upstream>) -> Self {
        let status = upstream.map(|upstream| upstream.status());
        let end = status.as_ref().and_then(|status| Some((status.last_word?.end, status.written)));
        Self {
            is_paused: store.is_showing_paused(),
            state: status.map(|status| status.state),
            bytes_missing: end.map_or(0, |(end, written)| end.get().saturating_sub(written.get())),
            has_unshown: store.applied_version() > lag.published,
            is_safe_behind: lag.boundary < lag.published,
        }
    }

    fn holder(self) -> Option<String> {
        let holder = match self.state {
            _ if self.is_paused => "pg_wal_replay_pause()",
            Some(UpstreamState::Waiting) => {
                "the connection to the primary, which is lost (pg_stat_wal_receiver)"
            }
            Some(UpstreamState::Stopped) => {
                "the replica, which does not follow any more (pg_stat_wal_receiver)"
            }
            Some(UpstreamState::Streaming) if self.bytes_missing > 0 => {
                return Some(format!(
                    "{} bytes of the primary's log that are not applied here",
                    self.bytes_missing
                ));
            }
            Some(UpstreamState::Streaming | UpstreamState::Archive) | None if self.has_unshown => {
                "commits that the primary has not published, as those that wait for replicas"
            }
            Some(UpstreamState::Archive) if self.is_safe_behind => {
                "the archive, whose later log says how far safe snapshots may go"
            }
            Some(UpstreamState::Streaming) | None if self.is_safe_behind => {
                "transactions at SERIALIZABLE on the primary (coeval.snapshot_lag says there which)"
            }
            Some(UpstreamState::Streaming | UpstreamState::Archive) | None => return None,
        };
        Some(holder.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_thing_that_holds_a_replica_back_is_said() {
        let all = Standing {
            is_paused: true,
            state: Some(UpstreamState::Streaming),
            bytes_missing: 7,
            has_unshown: true,
            is_safe_behind: true,
        };
        let said = |standing: Standing| standing.holder().unwrap_or_default();
        let not_paused = Standing { is_paused: false, ..all };
        let has_log = Standing { bytes_missing: 0, ..not_paused };
        let shows_all = Standing { has_unshown: false, ..has_log };
        for (standing, part) in [
            (all, "pause"),
            (Standing { state: Some(UpstreamState::Waiting), ..not_paused }, "connection"),
            (Standing { state: Some(UpstreamState::Stopped), ..not_paused }, "not follow any more"),
            (not_paused, "7 bytes"),
            (has_log, "not published"),
            (shows_all, "transactions at SERIALIZABLE"),
            (Standing { state: Some(UpstreamState::Archive), ..shows_all }, "archive"),
        ] {
            assert!(said(standing).contains(part), "{standing:?}: {}", said(standing));
        }
        assert_eq!(Standing { is_safe_behind: false, ..shows_all }.holder(), None);
    }
}
