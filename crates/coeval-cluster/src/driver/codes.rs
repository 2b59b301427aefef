// SPDX-License-Identifier: Apache-2.0
//! Codes of texts, for loads and readers on this node, and rows that have them.

use super::engine::Engine;
use super::error::{CodesError, LoadError};
use super::life::Life;
use super::node::Node;
use super::options::NodeOptions;
use crate::tables::RoutedRows;
use arrow::array::RecordBatch;
use bytes::Bytes;
use coeval_txn::cluster::{
    AskOutcome, Asked, BrickAddress, Code, DictionaryBounds, DictionaryError, DictionaryId, Purpose,
};
use std::sync::Arc;
use tokio::sync::oneshot;

impl Node {
    /// The codes of texts, in their order: the same on every node, for good. If all are known here, no node is asked.
    /// Otherwise the owner of the dictionary is asked for the others, a bounded number at a time; while owners change, it
    /// waits for the next one. `None`: the text has no code; so it is in no row that a snapshot of before this call has, or,
    /// if it should have got one, the dictionary is full.
    ///
    /// May be given up while it waits: codes may be given all the same.
    ///
    /// # Errors
    /// If the dictionary is neither named in the options nor that of a column of a table, the node is not in the view, a text is too long, or the owner does not
    /// answer in the time that the options give a node to serve.
    pub async fn codes(
        &self,
        dictionary: DictionaryId,
        purpose: Purpose,
        texts: &[Arc<str>],
    ) -> Result<Vec<Option<Code>>, CodesError> {
        self.life().codes(dictionary, purpose, texts).await
    }

    /// The rows of a batch by brick, for [`Load::append`](crate::Load::append) of a load of this node: columns of texts have the
    /// codes that their dictionaries give these. Texts come in any arrays of strings or dictionaries of such. If all are known
    /// here, no node is asked; otherwise owners of dictionaries are, and this waits for them.
    ///
    /// Rows that are refused for another reason than their texts use up no codes. May be given up while it waits: codes may be
    /// given all the same.
    ///
    /// # Errors
    /// If the table is not declared, or one of the rows is none of the table's; if a text is too long, a dictionary is full,
    /// or its owner does not answer in the time that the options give a node to serve. No row was sent anywhere.
    pub async fn rows(
        &self,
        table: u64,
        batch: &RecordBatch,
    ) -> Result<Vec<(BrickAddress, Bytes)>, LoadError> {
        let routed = self.life().routed(table, batch).await?;
        Ok(routed.by_brick().map(RoutedRows::sent).collect())
    }
}

impl Life {
    /// See [`Node::codes`].
    pub(super) async fn codes(
        &self,
        dictionary: DictionaryId,
        purpose: Purpose,
        texts: &[Arc<str>],
    ) -> Result<Vec<Option<Code>>, CodesError> {
        for part in texts.chunks(bounds_of(&self.options).texts_max) {
            let asked = self.step(|engine| engine.ask_for_codes(dictionary, purpose, part));
            let Some(told) = asked.ok_or_else(|| self.codes_ended())?? else { continue };
            match told.await {
                Ok(AskOutcome::Answered { .. }) => {}
                Ok(AskOutcome::Failed(why)) => return Err(why.into()),
                Err(_) => return Err(self.codes_ended()),
            }
        }
        self.known_codes(dictionary, texts).ok_or_else(|| self.codes_ended())
    }

    pub(super) fn codes_ended(&self) -> CodesError {
        CodesError::Ended(self.why_ended().to_string())
    }
}

impl Engine {
    /// Has the owner asked for what is not known here; what is given is told how that ends.
    fn ask_for_codes(
        &mut self,
        dictionary: DictionaryId,
        purpose: Purpose,
        texts: &[Arc<str>],
    ) -> Result<Option<oneshot::Receiver<AskOutcome>>, DictionaryError> {
        self.declare_dictionaries();
        match self.dictionaries.ask(dictionary, purpose, texts)? {
            Asked::Nobody => Ok(None),
            Asked::Owner(ask) => {
                let (tells, told) = oneshot::channel();
                self.askers.insert(ask, tells);
                Ok(Some(told))
            }
        }
    }
}

/// What goes into one message, and how long an ask is patient. All nodes have the same bounds, since they have the same of
/// frames.
pub(super) fn bounds_of(options: &NodeOptions) -> DictionaryBounds {
    let usual = DictionaryBounds::default();
    // Half a frame of texts, however long they are, leaves room for what is around them.
    let texts = options.transport.bounds.frame_bytes / 2 / usual.text_bytes_max;
    let patience = options.timeouts.serve.as_millis() / options.timeouts.resend.as_millis().max(1);
    DictionaryBounds {
        texts_max: texts.clamp(1, usual.texts_max),
        text_bytes_max: usual.text_bytes_max,
        patience: u32::try_from(patience).unwrap_or(u32::MAX).max(1),
    }
}
