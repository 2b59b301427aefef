// SPDX-License-Identifier: Apache-2.0
//! Bricks for a reader: from here, or from another node that has them.

use super::error::ReadError;
use super::life::Life;
use crate::brick_rows::BrickRows;
use crate::node::NodeId;
use crate::store::StoreFailed;
use crate::tables::RowsRefused;
use crate::texts::NoText;
use crate::transport::CallError;
use crate::wire::{BrickAnswer, BrickRequest, Malformed, PartAssembly, decode, encode};
use coeval_txn::EpochSet;
use coeval_txn::cluster::{BrickAddress, NodeError, ViewNumber};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Before those who have a brick are asked again: a view is on its way.
pub(super) const PAUSE: Duration = Duration::from_millis(5);

/// What a look at the own node gives.
pub(super) enum Here {
    Rows(BrickRows),
    /// Others serve the brick at this view, if anybody does.
    Elsewhere(ViewNumber, Vec<NodeId>),
    BelowSafe,
}

/// Why another node has given nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error(transparent)]
    Rows(#[from] RowsRefused),
    #[error(transparent)]
    Texts(#[from] NoText),
    #[error("it is at another view, or does not have the brick")]
    NotNow,
    #[error("the snapshot is older than what is kept")]
    BelowSafe,
}

impl Life {
    /// The rows of a brick that a snapshot of this life sees, with their texts: those of rows that are here this node knows, and who
    /// gives rows gives their texts. So nobody asks the owner of a dictionary.
    pub(super) async fn read(
        &self,
        brick: BrickAddress,
        snapshot: &EpochSet,
    ) -> Result<BrickRows, ReadError> {
        if !self.options.tables.has(brick.table) {
            return Err(ReadError::NoTable(brick.table));
        }
        let begun = Instant::now();
        let mut last = "no node of the view has it".to_owned();
        while begun.elapsed() < self.options.timeouts.read {
            let (view, nodes) = match self.read_here(brick, snapshot)? {
                Here::Rows(rows) => return self.spelled(rows),
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

    pub(super) fn read_here(&self, brick: BrickAddress, snapshot: &EpochSet) -> Result<Here, ReadError> {
        let here = self.look_into(|engine| {
            let view = engine.view();
            match engine.protocol.may_read(view, brick, snapshot) {
                Ok(()) => Ok(Here::Rows(engine.store.brick(brick)?.rows(snapshot.clone()))),
                Err(NodeError::BelowSafe) => Ok(Here::BelowSafe),
                Err(_) => Ok(Here::Elsewhere(view, engine.serving(brick))),
            }
        });
        let here = here.ok_or_else(|| self.read_ended())?;
        here.map_err(|failed: StoreFailed| ReadError::Ended(failed.to_string()))
    }

    pub(super) async fn read_from(
        &self,
        node: NodeId,
        view: ViewNumber,
        brick: BrickAddress,
        snapshot: &EpochSet,
    ) -> Result<BrickRows, Refused> {
        let request = encode(&BrickRequest::Read { view, brick, snapshot: snapshot.clone() });
        let mut answer = self.peers.fetch(node, request).await?;
        let (mut assembly, mut rows, mut texts) = (PartAssembly::default(), None, Vec::new());
        while let Some(part) = answer.next().await {
            match decode(part?)? {
                BrickAnswer::Part(part) if part.brick == brick && rows.is_none() => {
                    rows = assembly.add(part)?.map(|(_, rows)| rows);
                }
                BrickAnswer::Part(_) => {
                    return Err(Malformed::Contradiction("one brick was asked for").into());
                }
                BrickAnswer::Dictionaries(_)
                | BrickAnswer::Bricks(_)
                | BrickAnswer::Share(_)
                | BrickAnswer::Made(_)
                | BrickAnswer::Running => {
                    return Err(Malformed::Contradiction("rows were asked for").into());
                }
                BrickAnswer::Texts(more) => texts.push(more),
                BrickAnswer::NotNow => return Err(Refused::NotNow),
                BrickAnswer::BelowSafe => return Err(Refused::BelowSafe),
            }
        }
        let brick = self.options.tables.given_brick(brick, &rows.ok_or(Malformed::Cut)?)?;
        let rows = brick.rows(snapshot.clone());
        let codes = rows.codes();
        Ok(rows.spelled(&codes, &texts)?)
    }

    pub(super) fn read_ended(&self) -> ReadError {
        ReadError::Ended(self.why_ended().to_string())
    }
}
