// SPDX-License-Identifier: Apache-2.0
//! Epochs on many nodes (AOSI IV), where messages are lost and nodes die: who asks whom, and who sees what when.
//!
//! The protocol, what it differs from the paper in, and why it is right: `cluster/README.md`. In short:
//!
//! ```text
//!   coordinator            all members          holders of bricks        keeper of the views
//!       |---- Begin ----------->|                      |                       |
//!       |<--- pending, LCE -----|                      |                       |
//!       |---- Append --------------------------------->|                       |
//!       |<--- Appended --------------------------------|                       |
//!       |---- Commit --------------------------------->| log                   |
//!       |<--- CommitLogged, from all: decided ---------|                       |
//!       |---- Decided --------->| LCE                  |                       |
//!       X  dies                 |---- what is here of its transactions ------->|
//!                               |<--- a record: what has committed ------------|
//! ```
//!
//! - [`ClusterNode`]: a node; all that happens to it is a call, all that it wants is an [`Effect`];
//! - [`Message`], [`Body`]: what nodes say; [`LogRecord`]: what they log;
//! - [`View`], [`ViewRecord`], [`Placement`]: who belongs, and where bricks are;
//! - [`ViewKeeper`]: who writes the views; [`NodeAsk`]: what it is asked by who wants to belong;
//! - [`NextKeeper`], [`TermKeeper`], [`ViewHolder`]: how one keeper comes after another one; its proof is in `succession.rs`;
//! - [`Dictionaries`]: the codes of texts in rows, and who gives them; its proof is in `dictionaries.rs`.
//!
//! Start reading at `load.rs`, the life of a transaction.

mod dictionaries;
mod keeper;
mod ledger;
mod load;
mod message;
mod node;
mod readers;
mod record;
mod rules;
mod succession;
mod view;

pub use dictionaries::{
    AskId, AskOutcome, Asked, Code, Dictionaries, DictionaryBody, DictionaryBounds, DictionaryEffect,
    DictionaryError, DictionaryId, DictionaryMessage, DictionaryRecord, GivenText, Purpose, Spelling,
};
pub use keeper::{AddError, ChangeError, ClosedReport, NodeAsk, RemoveError, RowsFate, ToKeeper, ViewKeeper};
pub use message::{Body, CommitTerms, Message, Pending, Standing};
pub use node::{ClusterNode, NodeError};
pub use readers::ReaderId;
pub use record::{Effect, LoadFate, LoadOutcome, LogRecord};
pub use succession::{
    BeginError, HolderBody, HolderRecord, HolderSays, KeeperSays, NextKeeper, RecoverError, TermKeeper,
    ViewHolder,
};
pub use view::{
    BrickAddress, CommittedEpoch, EpochKind, Incarnation, KeeperPlace, KeeperTerm, KnownNode, Member, NodeId,
    Placement, StartId, View, ViewChange, ViewNumber, ViewRecord, WholeView, count_through, fold_records,
};

#[cfg(test)]
mod tests;
