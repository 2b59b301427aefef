// SPDX-License-Identifier: Apache-2.0
//! Bricks that come to this node for good.
//!
//! The protocol asks for them again with each resend until all have come, so an attempt that fails is only given up. Each
//! brick is handed over when it is whole; its rows are in memory until then. Dictionaries come by messages of their own; who
//! gives says which, and all has come when these have too. The texts of the codes in a brick come before its rows.
//!
//! Parts are taken at a pace, and one that is not taken is not sent: so who gives keeps it too, without a bound of its own.

use super::life::Life;
use crate::tables::{RowsOf, RowsRefused};
use crate::transport::CallError;
use crate::wire::{BrickAnswer, BrickRequest, Malformed, PartAssembly, decode, encode};
use coeval_txn::cluster::{Member, ViewNumber};
use std::sync::Arc;

/// Why bricks have not all come.
#[derive(Debug, thiserror::Error)]
enum CopyError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error(transparent)]
    Rows(#[from] RowsRefused),
    #[error("it is at another view, or this node is by now")]
    NotNow,
}

/// Gets all bricks that `from` gives to this node at `view`.
pub(super) async fn copy(life: Arc<Life>, from: Member, view: ViewNumber) {
    let end = life.end.clone();
    let Some(copied) = end.run_until_cancelled(copy_all(&life, from, view)).await else { return };
    if let Err(error) = &copied {
        tracing::debug!("bricks of {from} have not come to {}: {error}", life.member);
    }
    life.step(|engine| {
        engine.copying.remove(&(from, view));
        if copied.is_ok() {
            engine.protocol.copied_all(view, from);
        }
    });
}

async fn copy_all(life: &Life, from: Member, view: ViewNumber) -> Result<(), CopyError> {
    let has = life.look_into(|engine| engine.store.bricks());
    let has = has.and_then(Result::ok).ok_or(CopyError::NotNow)?;
    let request = encode(&BrickRequest::Copy { to: life.member, from, view, has });
    let mut answer = life.peers.fetch(from.node, request).await?;
    let (mut assembly, mut dictionaries) = (PartAssembly::default(), Vec::new());
    while let Some(part) = answer.next().await {
        let part = part?;
        let bytes = part.len();
        life.look_into(|engine| engine.copied_bytes += bytes as u64);
        life.pace.keep(bytes).await;
        let part = match decode(part)? {
            BrickAnswer::Part(part) => part,
            BrickAnswer::Dictionaries(given) => {
                dictionaries = given;
                continue;
            }
            BrickAnswer::Texts(texts) => {
                // Before the rows that have their codes.
                let learned = life.step(|engine| engine.learn(std::slice::from_ref(&texts)));
                learned.ok_or(CopyError::NotNow)??;
                continue;
            }
            BrickAnswer::Bricks(_) | BrickAnswer::Share(_) | BrickAnswer::Made(_) | BrickAnswer::Running => {
                return Err(Malformed::Contradiction("rows were asked for").into());
            }
            BrickAnswer::NotNow | BrickAnswer::BelowSafe => return Err(CopyError::NotNow),
        };
        if let Some((brick, rows)) = assembly.add(part)? {
            let handed_over = life.step(|engine| {
                let check = |(_, change): &(_, _)| engine.check_rows(brick, change, RowsOf::OneBrick);
                rows.iter().try_for_each(check)?;
                engine.protocol.copied(view, brick, rows).map_err(|_| CopyError::NotNow)?;
                engine.arrived.note(engine.protocol.view().layout(), brick);
                Ok::<_, CopyError>(())
            });
            handed_over.ok_or(CopyError::NotNow)??;
        }
    }
    if !assembly.is_complete() {
        return Err(Malformed::Cut.into());
    }
    let have_come = life.until(|engine| {
        let is_over = engine.view() != view;
        (is_over || engine.dictionaries.has_all(&dictionaries)).then_some(!is_over)
    });
    if have_come.await == Some(true) { Ok(()) } else { Err(CopyError::NotNow) }
}
