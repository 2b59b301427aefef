// SPDX-License-Identifier: Apache-2.0
//! Bricks for a reader: from here, or from another node that has them.

use super::error::ReadError;
use super::life::Life;
use crate::brick_change::BrickChange;
use crate::node::NodeId;
use crate::transport::CallError;
use crate::wire::{BrickAnswer, BrickRequest, Malformed, PartAssembly, decode, encode};
use bytes::Bytes;
use coeval_txn::cluster::{BrickAddress, NodeError, ViewNumber};
use coeval_txn::{Epoch, EpochSet};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Before those who have a brick are asked again: a view is on its way.
const PAUSE: Duration = Duration::from_millis(5);

/// What a look at the own node gives.
enum Here {
    Rows(Vec<(Epoch, Bytes)>),
    /// Others serve the brick at this view, if anybody does.
    Elsewhere(ViewNumber, Vec<NodeId>),
    BelowSafe,
}

/// Why another node has given nothing.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("it is at another view, or does not have the brick")]
    NotNow,
    #[error("the snapshot is older than what is kept")]
    BelowSafe,
}

impl Life {
    /// The rows of a brick that a snapshot of this life sees.
    pub(super) async fn read(
        &self,
        brick: BrickAddress,
        snapshot: &EpochSet,
    ) -> Result<Vec<(Epoch, Bytes)>, ReadError> {
        let begun = Instant::now();
        let mut last = "no node of the view has it".to_owned();
        while begun.elapsed() < self.options.timeouts.read {
            let (view, nodes) = match self.read_here(brick, snapshot)? {
                Here::Rows(rows) => return Ok(rows),
                Here::BelowSafe => return Err(ReadError::BelowSafe),
                Here::Elsewhere(view, nodes) => (view, nodes),
            };
            for node in nodes {
                let reading = self.read_from(node, view, brick, snapshot);
                match self.end.run_until_cancelled(reading).await {
                    Some(Ok(rows)) => return Ok(rows),
                    Some(Err(Refused::BelowSafe)) => return Err(ReadError::BelowSafe),
                    Some(Err(refused)) => last = format!("{node}: {refused}"),
                    None => return Err(self.read_ended()),
                }
            }
            sleep(PAUSE).await;
        }
        let BrickAddress { table, brick } = brick;
        Err(ReadError::NotToBeHad { table, brick, after: self.options.timeouts.read, last })
    }

    fn read_here(&self, brick: BrickAddress, snapshot: &EpochSet) -> Result<Here, ReadError> {
        let here = self.look(|engine| {
            let view = engine.view();
            match engine.protocol.may_read(view, brick, snapshot) {
                Ok(()) => Here::Rows(engine.store.read(brick, snapshot)),
                Err(NodeError::BelowSafe) => Here::BelowSafe,
                Err(_) => Here::Elsewhere(view, engine.serving(brick)),
            }
        });
        here.ok_or_else(|| self.read_ended())
    }

    async fn read_from(
        &self,
        node: NodeId,
        view: ViewNumber,
        brick: BrickAddress,
        snapshot: &EpochSet,
    ) -> Result<Vec<(Epoch, Bytes)>, Refused> {
        let request = encode(&BrickRequest::Read { view, brick, snapshot: snapshot.clone() });
        let mut answer = self.peers.fetch(node, request).await?;
        let (mut assembly, mut rows) = (PartAssembly::default(), None);
        while let Some(part) = answer.next().await {
            match decode(part?)? {
                BrickAnswer::Part(part) if part.brick == brick && rows.is_none() => {
                    rows = assembly.add(part)?.map(|(_, rows)| rows);
                }
                BrickAnswer::Part(_) => {
                    return Err(Malformed::Contradiction("one brick was asked for").into());
                }
                BrickAnswer::NotNow => return Err(Refused::NotNow),
                BrickAnswer::BelowSafe => return Err(Refused::BelowSafe),
            }
        }
        let rows = rows.ok_or(Malformed::Cut)?;
        let rows: Result<_, _> = rows
            .into_iter()
            .map(|(label, change)| match change {
                BrickChange::Rows(rows) => Ok((label, rows)),
                BrickChange::Delete(_) => Err(Malformed::Contradiction("a reader is given rows")),
            })
            .collect();
        Ok(rows?)
    }

    pub(super) fn read_ended(&self) -> ReadError {
        ReadError::Ended(self.why_ended().to_string())
    }
}
