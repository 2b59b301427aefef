// SPDX-License-Identifier: Apache-2.0
//! Codes of texts, for loads and readers on this node.

use super::engine::Engine;
use super::error::CodesError;
use super::life::Life;
use super::node::Node;
use super::options::NodeOptions;
use coeval_txn::cluster::{
    AskOutcome, Asked, Code, DictionaryBounds, DictionaryError, DictionaryId, Purpose,
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
    /// If the dictionary was not named in the options, the node is not in the view, a text is too long, or the owner does not
    /// answer in the time that the options give a node to serve.
    pub async fn codes(
        &self,
        dictionary: DictionaryId,
        purpose: Purpose,
        texts: &[Arc<str>],
    ) -> Result<Vec<Option<Code>>, CodesError> {
        let life = self.life();
        for part in texts.chunks(bounds_of(&life.options).texts_max) {
            let asked = life.step(|engine| engine.ask_for_codes(dictionary, purpose, part));
            let Some(told) = asked.ok_or_else(|| ended(&life))?? else { continue };
            match told.await {
                Ok(AskOutcome::Answered { .. }) => {}
                Ok(AskOutcome::Failed(why)) => return Err(why.into()),
                Err(_) => return Err(ended(&life)),
            }
        }
        let code_of = |engine: &Engine| {
            let codes = texts.iter().map(|text| engine.dictionaries.code_of(dictionary, text));
            codes.collect::<Vec<_>>()
        };
        life.look(code_of).ok_or_else(|| ended(&life))
    }
}

fn ended(life: &Life) -> CodesError {
    CodesError::Ended(life.why_ended().to_string())
}

impl Engine {
    /// Has the owner asked for what is not known here; what is given is told how that ends.
    fn ask_for_codes(
        &mut self,
        dictionary: DictionaryId,
        purpose: Purpose,
        texts: &[Arc<str>],
    ) -> Result<Option<oneshot::Receiver<AskOutcome>>, DictionaryError> {
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
