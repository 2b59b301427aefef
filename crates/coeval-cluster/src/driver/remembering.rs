// SPDX-License-Identifier: Apache-2.0
//! What a node writes down of where the others are, so that it finds them when it starts again.
//!
//! Nothing waits for that, and nothing depends on it but how many nodes it has to ask: so it is done now and then, and what
//! fails is tried again.

use super::engine::Engine;
use super::life::Life;
use crate::membership::Membership;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// Between two looks whether somebody is new or elsewhere, the keeper among them.
const PERIOD: Duration = Duration::from_millis(500);

/// Writes down what is known whenever it changes, and where the keeper is, until the life ends.
pub(super) async fn remember_until_end(life: Arc<Life>, directory: PathBuf) {
    let mut looks = interval(PERIOD);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (end, mut written) = (life.end.clone(), (0, life.options.keeper));
    while end.run_until_cancelled(looks.tick()).await.is_some() {
        let changed = life.look(|engine| {
            let changes = (engine.known.changes(), engine.keeper_node());
            (changes != written).then(|| (changes, engine.own_membership()))
        });
        let Some((changes, membership)) = changed.flatten() else { continue };
        let to = directory.clone();
        let kept = tokio::task::spawn_blocking(move || membership.remember(&to)).await;
        match kept {
            Ok(Ok(())) => written = changes,
            Ok(Err(error)) => tracing::warn!("where the nodes are is not written down: {error}"),
            // The runtime ends, and so does this.
            Err(_) => return,
        }
    }
}

impl Engine {
    fn own_membership(&self) -> Membership {
        self.membership_of(self.own(), self.options.transport.address.clone())
    }
}
