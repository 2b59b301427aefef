// SPDX-License-Identifier: Apache-2.0
//! How a process comes to be a node: it founds a cluster, joins one, or starts again.
//!
//! ```text
//!   first node:   Membership::found                 number 1, the keeper; nobody is asked
//!   others:       Membership::join, any address     draw a start id, write it; ask; write what is answered
//!   later starts: Membership::join                  ask whom it knows where the others are, or go by what is written
//! ```
//! What is written is a log in the node's directory, `membership.log`: the start id before it is told to anybody, so that a node
//! whose answer was lost is known again; then each membership. The last one counts.
//!
//! While a node runs it writes down there too where the others are by then (`driver/remembering.rs`).
//!
//! A node that starts again where it was goes by what it has if nobody answers: all may start at once. One that is elsewhere
//! now has to be heard, since nobody would take its connections.

use crate::log::{Batch, Durability, LogError, LogFile};
use crate::membership::Membership;
use crate::node::{ClusterId, NodeId};
use crate::node_address::NodeAddress;
use crate::transport::{AskError, AskOptions, ConfigurationError, TransportOptions, ask};
use crate::wire::{JoinAnswer, JoinRequest, MembershipRecord, decode, encode};
use coeval_txn::cluster::{StartId, ViewNumber};
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::time::sleep;

/// The name of the log in a node's directory.
const LOG_NAME: &str = "membership.log";
/// Before all are asked again, when none has answered.
const PAUSE: Duration = Duration::from_millis(100);
/// How often the log is tried to be opened that somebody has open: for half a second in all.
const ATTEMPTS: u32 = 50;
/// Between two attempts.
const ATTEMPT_PAUSE: Duration = Duration::from_millis(10);

/// Why a process is no node. What was written before stays as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// What the node keeps of its cluster cannot be read or written.
    #[error(transparent)]
    Log(#[from] LogError),
    /// What is kept there is of another version of this program.
    #[error("what {0} has of the node's cluster cannot be read")]
    Unreadable(PathBuf),
    /// Its certificates cannot be used.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// The directory is a node's already, so no cluster is founded with it.
    #[error("{0} is the directory of a node: it starts again, and founds nothing")]
    IsNode(PathBuf),
    /// The node was removed from its cluster for good.
    #[error("{0} was removed from the cluster; to belong to it again, it joins with an empty directory")]
    Removed(NodeId),
    /// The cluster does not take it.
    #[error("{address} does not take this node: {why}")]
    Refused {
        /// Who was asked.
        address: NodeAddress,
        /// What it has answered.
        why: String,
    },
    /// Nobody has answered in time. The cluster may have given it a number; it gets the same when it asks again.
    #[error("no node of the cluster has answered for {} ms: {last}", after.as_millis())]
    Unanswered {
        /// How long was waited.
        after: Duration,
        /// What the last one who was asked has said, or why it was not reached.
        last: String,
    },
}

impl Membership {
    /// The first node of a new cluster, which has the keeper; on disk in `directory` when this returns. The node is then
    /// started, and the keeper with [`Founding::Found`](crate::Founding::Found). Waits for the disk.
    ///
    /// # Errors
    /// If the directory cannot be used, or is a node's already.
    ///
    /// # Panics
    /// If there are no replicas or no numbers of nodes.
    pub fn found(
        directory: &Path,
        cluster: ClusterId,
        address: NodeAddress,
        replicas: usize,
        stride: u32,
    ) -> Result<Self, JoinError> {
        assert!(replicas >= 1 && stride >= 1, "each brick is somewhere, and each node has epochs");
        let mut kept = Kept::open(directory)?;
        if kept.start.is_some() || kept.membership.is_some() {
            return Err(JoinError::IsNode(directory.to_owned()));
        }
        let (node, as_of) = (NodeId::new(1), ViewNumber::default());
        let nodes = vec![(node, address)];
        let membership = Self { cluster, node, nodes, as_of, keeper: node, replicas, stride };
        kept.keep(&membership)?;
        Ok(membership)
    }

    /// What the node of this directory was told last; nothing if it is no node's. Waits for the disk.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(directory: &Path) -> Result<Option<Self>, JoinError> {
        if !Self::is_kept_in(directory) {
            return Ok(None);
        }
        Ok(Kept::open(directory)?.membership)
    }

    /// Belongs to a cluster: for the first time through a node at one of the `seeds`, whichever, or again, for which no
    /// seed is needed unless all nodes are elsewhere by now. On disk in `directory` when this returns. Then the node is started.
    ///
    /// All are asked over and over for as long as `patience`. A node that starts again where it was asks each once,
    /// and goes by what it was told last if nobody answers; the one with the keeper asks nobody. That one should stay where it
    /// is: nobody else can tell the others where it is now, so each has to start again with its new address as a seed.
    ///
    /// # Errors
    /// If the directory or the certificates cannot be used, the cluster does not take the node, or nobody answers. A number
    /// that was given is not lost by that: asked again with this directory, the cluster gives the same.
    pub async fn join(
        directory: &Path,
        options: &AskOptions,
        seeds: &[NodeAddress],
        patience: Duration,
    ) -> Result<Self, JoinError> {
        let mut kept = Kept::open(directory)?;
        let before = kept.membership.clone();
        if let Some(mut own) = before.clone().filter(|before| before.keeper == before.node) {
            if own.address() != Some(&options.address) && own.nodes.len() > 1 {
                tracing::warn!(
                    "{} has the keeper and is at {} now: the other nodes refuse it until they start again and join \
                     through that address",
                    own.node,
                    options.address
                );
            }
            own.set_own_address(options.address.clone());
            kept.keep(&own)?;
            return Ok(own);
        }
        let joining = Joining::new(kept.start()?, before.as_ref(), options, seeds);
        let stays = before.filter(|before| before.address() == Some(&options.address));
        let begun = Instant::now();
        loop {
            let last = match joining.ask_all().await? {
                Ok(membership) => {
                    kept.keep(&membership)?;
                    return Ok(membership);
                }
                Err(last) => last,
            };
            if let Some(before) = stays {
                tracing::warn!("{} starts with the list of nodes that it has: {last}", before.node);
                return Ok(before);
            }
            let after = begun.elapsed();
            if after >= patience {
                return Err(JoinError::Unanswered { after, last });
            }
            sleep(PAUSE).await;
        }
    }

    /// Whether a directory is that of a node that has founded a cluster or joined one.
    pub(crate) fn is_kept_in(directory: &Path) -> bool {
        directory.join(LOG_NAME).exists()
    }

    /// Keeps this as what the node of this directory was told last.
    ///
    /// # Errors
    /// If the directory cannot be used.
    pub(crate) fn remember(&self, directory: &Path) -> Result<(), JoinError> {
        Kept::open(directory)?.keep(self)
    }

    /// What the node's transport is told: who it is by its membership, and the rest as when it asked.
    #[must_use]
    pub fn transport(&self, options: &AskOptions) -> TransportOptions {
        let AskOptions { address, formats, versions, security, timeouts, .. } = options;
        let usual = TransportOptions::new(self.node, address.clone(), self.cluster, *formats);
        TransportOptions { versions: *versions, security: security.clone(), timeouts: *timeouts, ..usual }
    }
}

/// A node that asks.
struct Joining {
    options: AskOptions,
    request: JoinRequest,
    asked: Vec<NodeAddress>,
}

impl Joining {
    fn new(start: StartId, before: Option<&Membership>, options: &AskOptions, seeds: &[NodeAddress]) -> Self {
        let (mut options, mut asked) = (options.clone(), seeds.to_vec());
        if let Some(before) = before {
            options.cluster.get_or_insert(before.cluster);
            asked.extend(before.nodes.iter().map(|(_, address)| address.clone()));
        }
        let address = options.address.clone();
        // Nobody is there yet who answers at its own.
        asked.retain(|other| *other != address);
        let request = JoinRequest { start, node: before.map(|before| before.node), address };
        Self { options, request, asked }
    }

    /// Asks one after the other: the first answer, or what the last of them has said.
    ///
    /// # Errors
    /// If it is of no use to ask again.
    async fn ask_all(&self) -> Result<Result<Membership, String>, JoinError> {
        let mut last = "no address of a node is known".to_owned();
        for to in &self.asked {
            let answer = match ask(&self.options, to, encode(&self.request).into()).await {
                Ok(answer) => answer,
                Err(AskError::Configuration(error)) => return Err(error.into()),
                Err(AskError::Link(error)) => {
                    last = error.to_string();
                    continue;
                }
            };
            match decode(answer) {
                Ok(JoinAnswer::Belongs(membership)) => return Ok(Ok(membership)),
                Ok(JoinAnswer::Removed(node)) => return Err(JoinError::Removed(node)),
                Ok(JoinAnswer::Refused(why)) => {
                    return Err(JoinError::Refused { address: to.clone(), why: why.to_string() });
                }
                Err(error) => last = format!("what {to} answers is not known here: {error}"),
            }
        }
        Ok(Err(last))
    }
}

/// What a node has on disk of its cluster.
struct Kept {
    log: LogFile,
    start: Option<StartId>,
    membership: Option<Membership>,
}

impl Kept {
    fn open(directory: &Path) -> Result<Self, JoinError> {
        let path = directory.join(LOG_NAME);
        let mut opened = LogFile::open(&path, Durability::Synced);
        // A node that runs has it open for as long as a write takes, also when it is about to end.
        for _ in 0..ATTEMPTS {
            if !matches!(opened, Err(LogError::InUse(_))) {
                break;
            }
            std::thread::sleep(ATTEMPT_PAUSE);
            opened = LogFile::open(&path, Durability::Synced);
        }
        let (log, records) = opened?;
        let mut kept = Self { log, start: None, membership: None };
        for record in records {
            match decode(record).map_err(|_| JoinError::Unreadable(directory.to_owned()))? {
                MembershipRecord::Start(start) => kept.start = Some(start),
                MembershipRecord::Belongs(membership) => kept.membership = Some(membership),
            }
        }
        Ok(kept)
    }

    /// What is drawn once, and on disk before anybody hears of it.
    fn start(&mut self) -> Result<StartId, JoinError> {
        if let Some(start) = self.start {
            return Ok(start);
        }
        let start = draw();
        self.write(&MembershipRecord::Start(start))?;
        self.start = Some(start);
        Ok(start)
    }

    fn keep(&mut self, membership: &Membership) -> Result<(), JoinError> {
        if self.membership.as_ref() != Some(membership) {
            self.write(&MembershipRecord::Belongs(membership.clone()))?;
            self.membership = Some(membership.clone());
        }
        Ok(())
    }

    fn write(&mut self, record: &MembershipRecord) -> Result<(), JoinError> {
        let mut batch = Batch::new();
        batch.push(&encode(record));
        self.log.write(batch)?;
        Ok(())
    }
}

/// A number that nobody else draws: the standard library's hashes begin with random keys of the system.
fn draw() -> StartId {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let drawn = RandomState::new().hash_one((now, std::process::id()));
    StartId::new(NonZeroU64::new(drawn).unwrap_or(NonZeroU64::MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> NodeAddress {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_drawn_is_drawn_once_for_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        let first = Kept::open(directory.path()).unwrap().start().unwrap();
        assert_eq!(Kept::open(directory.path()).unwrap().start().unwrap(), first);
        let other = tempfile::tempdir().unwrap();
        assert_ne!(Kept::open(other.path()).unwrap().start().unwrap(), first);
    }

    #[test]
    fn a_cluster_is_founded_once_with_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Membership::read(directory.path()).unwrap(), None);
        let found = || Membership::found(directory.path(), ClusterId::new(7), address("n1:1"), 2, 8);
        let membership = found().unwrap();
        assert_eq!((membership.node, membership.keeper), (NodeId::new(1), NodeId::new(1)));
        assert!(matches!(found(), Err(JoinError::IsNode(_))));
        assert_eq!(Membership::read(directory.path()).unwrap(), Some(membership));
    }

    #[test]
    fn the_last_membership_counts() {
        let directory = tempfile::tempdir().unwrap();
        let mut membership =
            Membership::found(directory.path(), ClusterId::new(7), address("n1:1"), 2, 8).unwrap();
        membership.nodes.push((NodeId::new(2), address("n2:1")));
        Kept::open(directory.path()).unwrap().keep(&membership).unwrap();
        assert_eq!(Membership::read(directory.path()).unwrap(), Some(membership));
    }

    /// The one with the keeper asks nobody.
    #[test]
    fn the_keepers_node_starts_again_by_itself() {
        let directory = tempfile::tempdir().unwrap();
        Membership::found(directory.path(), ClusterId::new(7), address("n1:1"), 2, 8).unwrap();
        let options = AskOptions::new(address("n1:2"), crate::Formats::up_to(crate::FormatVersion::new(1)));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let again = Membership::join(directory.path(), &options, &[], Duration::ZERO);
        let again = runtime.block_on(again).unwrap();
        assert_eq!(again.address(), Some(&address("n1:2")));
        let transport = again.transport(&options);
        assert_eq!((transport.node, transport.cluster), (NodeId::new(1), ClusterId::new(7)));
        assert_eq!(Membership::read(directory.path()).unwrap(), Some(again));
    }

    #[test]
    fn nobody_to_ask_is_said() {
        let directory = tempfile::tempdir().unwrap();
        let options = AskOptions::new(address("n2:1"), crate::Formats::up_to(crate::FormatVersion::new(1)));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let joined = Membership::join(directory.path(), &options, &[], Duration::ZERO);
        let error = runtime.block_on(joined).unwrap_err();
        assert!(matches!(error, JoinError::Unanswered { .. }), "{error}");
    }
}
