// SPDX-License-Identifier: Apache-2.0
//! Loads whose labels are remembered.

use crate::nodes::Cluster;
use crate::sums::fill;
use coeval_cluster::{CommitWait, Epoch, LoadError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tokio::task::JoinHandle;

/// A load that was acknowledged: its label, and its number.
pub(crate) type Acknowledged = (Epoch, u64);

/// One load after the other on each of some nodes.
pub(crate) struct Loading {
    ends: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
    acknowledged: Arc<Mutex<Vec<Acknowledged>>>,
}

impl Loading {
    pub(crate) fn start(cluster: &Cluster, nodes: &[u32]) -> Self {
        let (ends, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let mut loading = Self { ends, tasks: Vec::new(), acknowledged };
        for number in nodes {
            let (node, ends) = (cluster.node(*number).clone(), Arc::clone(&loading.ends));
            let acknowledged = Arc::clone(&loading.acknowledged);
            loading.tasks.push(cluster.runtime.spawn(async move {
                while !ends.load(Ordering::Relaxed) {
                    tokio::task::yield_now().await;
                    let mut load = match node.begin().await {
                        Ok(load) => load,
                        Err(LoadError::Ended(_)) => break,
                        Err(_) => continue,
                    };
                    let Ok(number) = fill(&mut load).await else { continue };
                    let epoch = load.epoch();
                    if load.commit(CommitWait::Decided).await.is_ok() {
                        acknowledged.lock().unwrap().push((epoch, number));
                    }
                }
            }));
        }
        loading
    }

    pub(crate) fn count(&self) -> usize {
        self.acknowledged.lock().unwrap().len()
    }

    /// What has been acknowledged so far.
    pub(crate) fn acknowledged(&self) -> Vec<Acknowledged> {
        self.acknowledged.lock().unwrap().clone()
    }

    /// Ends it, each load that has begun to the end; gives all that were acknowledged.
    pub(crate) fn stop(&mut self, cluster: &Cluster) -> Vec<Acknowledged> {
        self.ends.store(true, Ordering::Relaxed);
        std::mem::take(&mut self.tasks).into_iter().for_each(|task| cluster.runtime.block_on(task).unwrap());
        self.acknowledged.lock().unwrap().clone()
    }
}

/// A test that fails ends too.
impl Drop for Loading {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}
