// SPDX-License-Identifier: Apache-2.0
//! Rows name how far loads of the cluster have come: what readers of both go by.
//!
//! ```text
//!   the primary     the newest epoch that its node shows  -->  a row of the database, if that is later than what it has
//!   every node      the oldest rows that can be read here -->  what they name  -->  kept by the node, and so by all
//!                   rows that name a load are there       -->  the load is decided, if whoever was to say so has gone
//! ```
//! Why: `coeval-txn`'s `epochs/cluster/README.md`, "Rows and bricks". While nothing is loaded nothing is written. While there is no primary, or
//! it is none of the cluster's nodes, readers of rows see no later loads, and old rows of bricks are kept.

use super::own_node::OwnNode;
use coeval::{Store, StoreError, Version};
use coeval_cluster::{Epoch, Node};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the primary looks whether loads have come further. So much later they are seen beside rows; and while loads run, so often
/// there is a commit, which syncs.
const NOTE_PAUSE: Duration = Duration::from_millis(100);
/// How often a node is told how old the rows are that can be read here.
const TELL_PAUSE: Duration = Duration::from_millis(500);

/// How long a start waits for it to be seen that ages begin anew.
const ANEW_PATIENCE: Duration = Duration::from_secs(3);

/// Has the primary's rows name how far loads have come, and the node keep what rows name, until the runtime ends.
pub(super) async fn keep(store: Store, own: Arc<OwnNode>) {
    let (mut ages, mut told, mut said) = (Ages::default(), Instant::now(), None);
    loop {
        tokio::time::sleep(NOTE_PAUSE).await;
        let Some(node) = own.present() else { continue };
        node.decide_found();
        let noted = if store.is_following() { Ok(()) } else { note_newest(&store, &node).await };
        let looked = if told.elapsed() < TELL_PAUSE {
            Ok(())
        } else {
            told = Instant::now();
            tell_oldest(&store, &node, &mut ages).await
        };
        let failed = noted.and(looked).err().map(|error| error.to_string());
        if let Some(error) = failed.as_ref().filter(|error| said.as_ref() != Some(*error)) {
            tracing::warn!(%error, "rows do not name how far loads of the cluster have come");
        }
        said = failed;
    }
}

/// A new cluster is founded on a database that may have been another one's: the epochs that its rows name mean nothing any more.
///
/// A database that was restored may wait for synchronous replicas, which come once this server listens. So it is not waited for longer than
/// some seconds; it is committed then, and who reads rows is told to come again until it is seen.
pub(super) async fn begin_anew(store: &Store) {
    let store = store.clone();
    let begun = tokio::task::spawn_blocking(move || store.begin_brick_ages());
    match tokio::time::timeout(ANEW_PATIENCE, begun).await {
        Ok(Ok(Err(error))) => {
            tracing::warn!(%error, "rows name loads of an earlier cluster: readers of rows wait until there are as many");
        }
        // It has panicked, which was said, or the server ends.
        Ok(Ok(Ok(())) | Err(_)) => {}
        Err(_) => tracing::warn!(
            "rows name loads of an earlier cluster until synchronous replicas have that they do not: readers of rows wait for that"
        ),
    }
}

async fn note_newest(store: &Store, node: &Node) -> Result<(), StoreError> {
    // A node that does not serve shows nothing. What it shows is kept until rows name it.
    let Ok(newest) = node.snapshot().await else { return Ok(()) };
    let (store, age) = (store.clone(), newest.epochs().newest());
    let noted = tokio::task::spawn_blocking(move || store.note_brick_age(age)).await;
    // It has panicked, which was said, or the server ends.
    noted.unwrap_or(Ok(()))
}

async fn tell_oldest(store: &Store, node: &Node, ages: &mut Ages) -> Result<(), StoreError> {
    let store = store.clone();
    let look = move || -> Result<_, StoreError> {
        let world = store.world();
        Ok((world.version(), world.brick_age()?, store.oldest_readable()))
    };
    let Ok(looked) = tokio::task::spawn_blocking(look).await else { return Ok(()) };
    let (version, age, readable) = looked?;
    if let Some(age) = age {
        ages.note(version, age);
    }
    let oldest = readable.and_then(|readable| ages.oldest(readable));
    // A later one is an earlier cluster's.
    if let Some(oldest) = oldest.filter(|age| node.newest_shown().is_some_and(|newest| *age <= newest)) {
        node.note_oldest_age(oldest);
    }
    Ok(())
}

/// What versions of rows name, as far as it was seen here, from the oldest on that somebody may read.
#[derive(Debug, Default)]
struct Ages {
    /// Each with a version that names it, both ascending. Versions in between name the one before or something in between.
    seen: VecDeque<(Version, Epoch)>,
    /// The oldest version that somebody could read, by the look before.
    readable: Option<Version>,
}

impl Ages {
    fn note(&mut self, version: Version, age: Epoch) {
        if self.seen.back().is_some_and(|(_, last)| *last > age) {
            // The cluster is another one.
            self.seen.clear();
        }
        if self.seen.back().is_none_or(|(_, last)| *last < age) {
            self.seen.push_back((version, age));
        }
    }

    /// An age that is not above what any rows name that somebody may read from here on, if one is known. It goes by the look before this
    /// one: who begins meanwhile may get the snapshot before the newest one.
    fn oldest(&mut self, readable: Version) -> Option<Epoch> {
        let readable = self.readable.replace(readable)?;
        while self.seen.get(1).is_some_and(|(version, _)| *version <= readable) {
            self.seen.pop_front();
        }
        self.seen.front().filter(|(version, _)| *version <= readable).map(|(_, age)| *age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coeval::Database;
    use tokio::runtime::Builder;

    /// To break it: have `begin_anew` wait as long as it takes. A directory that was restored with a list of replicas never comes to listen
    /// then, and they never come.
    #[test]
    fn a_start_does_not_wait_for_replicas_that_can_only_come_behind_it() {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::open(dir.path()).unwrap();
        let store = database.engine().store();
        store.note_brick_age(Epoch::new(7)).unwrap();
        let mut session = database.session();
        session.run("SET synchronous_standby_names = 'nobody'").unwrap();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let begun = Instant::now();
        runtime.block_on(begin_anew(store));
        runtime.shutdown_background();
        assert!(begun.elapsed() >= ANEW_PATIENCE && begun.elapsed() < ANEW_PATIENCE * 5);
        assert_eq!(store.world().brick_age().unwrap(), Some(Epoch::new(7)), "it is not seen yet");
        // Who would note one meanwhile waits for that, and goes on behind it.
        let other = store.clone();
        let noting = std::thread::spawn(move || other.note_brick_age(Epoch::new(9)));
        std::thread::sleep(Duration::from_millis(100));
        assert!(!noting.is_finished());
        session.run("SET synchronous_standby_names = ''").unwrap();
        noting.join().unwrap().unwrap();
        assert_eq!(store.world().brick_age().unwrap(), Some(Epoch::new(9)));
    }

    /// To break it: take the age of the newest version for that of all.
    #[test]
    fn what_is_kept_is_what_the_oldest_rows_name() {
        let (at, epoch) = (Version::new, Epoch::new);
        let mut ages = Ages::default();
        ages.note(at(3), epoch(10));
        assert_eq!(ages.oldest(at(3)), None, "nobody has looked before");
        ages.note(at(5), epoch(10));
        ages.note(at(8), epoch(20));
        assert_eq!(ages.oldest(at(7)), Some(epoch(10)), "as of the look before");
        ages.note(at(9), epoch(30));
        assert_eq!(ages.oldest(at(8)), Some(epoch(10)), "version 7 may name it still");
        assert_eq!(ages.oldest(at(9)), Some(epoch(20)));
        assert_eq!(ages.oldest(at(9)), Some(epoch(30)));
        ages.note(at(12), epoch(2));
        assert_eq!(ages.oldest(at(12)), None, "what older rows name is another cluster's");
        assert_eq!(ages.oldest(at(12)), Some(epoch(2)));
    }
}
