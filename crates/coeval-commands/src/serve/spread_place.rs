// SPDX-License-Identifier: Apache-2.0
//! [`SpreadPlace`]: where backups of this server find the rows of tables that are spread over a cluster.
//!
//! Why a place: backups are offered, and the archive is begun, before it is known what the server is in its cluster, so that no log is
//! missed. The archiver makes its first backup at once, and would make it without these rows; so who asks for them waits a while for
//! the server to become a node.

use coeval_archive::{ArchiveError, SpreadSnapshot, SpreadSource};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How long a server may take to become a node, before a backup does without.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// See the module. Clones are the same place.
#[derive(Clone, Default)]
pub(super) struct SpreadPlace(Arc<OnceLock<Arc<dyn SpreadSource>>>);

impl SpreadPlace {
    /// This is the node of the server. The first one counts.
    pub(super) fn set(&self, node: Arc<dyn SpreadSource>) {
        // A process is one node.
        let _ = self.0.set(node);
    }

    /// The node of the server, if it is one.
    pub(super) fn node(&self) -> Option<&Arc<dyn SpreadSource>> {
        self.0.get()
    }
}

impl SpreadSource for SpreadPlace {
    fn snapshot(&self) -> Result<Box<dyn SpreadSnapshot>, ArchiveError> {
        let begun = Instant::now();
        loop {
            if let Some(node) = self.node() {
                return node.snapshot();
            }
            if begun.elapsed() >= START_PATIENCE {
                return Err(ArchiveError::Spread("this server is about to be a node".to_owned()));
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It is a node, and says so.
    struct Says;

    impl SpreadSource for Says {
        fn snapshot(&self) -> Result<Box<dyn SpreadSnapshot>, ArchiveError> {
            Err(ArchiveError::Spread("the node was asked".to_owned()))
        }
    }

    /// To break it: refuse at once. The first backup of an archiver is without these rows then, whenever it is begun beside a cluster.
    #[test]
    fn who_asks_waits_for_the_server_to_become_a_node() {
        let place = SpreadPlace::default();
        let later = place.clone();
        let setting = std::thread::spawn(move || {
            std::thread::sleep(LOOK_INTERVAL * 4);
            later.set(Arc::new(Says));
        });
        let Err(said) = place.snapshot() else { panic!("the node refuses") };
        assert!(said.to_string().contains("the node was asked"), "{said}");
        setting.join().unwrap();
    }
}
