// SPDX-License-Identifier: Apache-2.0
//! Settings of the whole database: SHOW gives the database's value, not one that the session has set.

use super::units::shown_limit;
use super::{
    MAX_SLOT_WAL_KEEP_SIZE, SAFE_SNAPSHOT_MAX_LAG, WAL_KEEP_SIZE, WAL_SENDER_TIMEOUT, shown_log_bytes,
    shown_slot_bytes, snapshot_lag,
};
use crate::registry::Registry;
use crate::standby_names::{self, SYNCHRONOUS_STANDBY_NAMES};
use crate::upstream::Upstream;
use coeval_store::Store;

/// What such a setting is now; nothing if the name, in lower case, is of another one. `upstream` knows where a replica stands that is
/// served.
pub(crate) fn of_database(
    name: &str,
    store: &Store,
    registry: &Registry,
    upstream: Option<&dyn Upstream>,
) -> Option<String> {
    Some(match name {
        "coeval.peers" => store.peer_names().join(", "),
        "coeval.snapshot_lag" => snapshot_lag::shown(store, registry, upstream),
        SAFE_SNAPSHOT_MAX_LAG => {
            let lag = store.safe_snapshot_lag_max();
            lag.map_or_else(|| "0".to_owned(), |lag| format!("{}ms", lag.as_millis()))
        }
        SYNCHRONOUS_STANDBY_NAMES => standby_names::shown(store.recorded_replicas().as_ref()),
        MAX_SLOT_WAL_KEEP_SIZE => shown_slot_bytes(store.slot_bytes_max()),
        WAL_KEEP_SIZE => shown_log_bytes(store.log_keep_bytes()),
        WAL_SENDER_TIMEOUT => shown_limit(store.follower_silence_max()),
        _ => return None,
    })
}
