// SPDX-License-Identifier: Apache-2.0
//! Dictionaries of many nodes: what stands for a text in the rows of a brick, who gives it, and who knows it when.
//!
//! The codes of a dimension decide in which brick a row is, so all nodes must have the same ones, small and without gaps.
//! One node gives them, the *owner*; loads that know their texts ask nobody.
//!
//! ```text
//!   asker                owner                    holders, of which the owner is one
//!   Ask n, texts  ---->  next codes to new ones
//!                        Give after, texts  --->  behind the same past: log it, sync
//!                        <---  Logged through
//!                        all have it on disk: the codes are settled
//!         <----  Codes n
//!   log that they are known
//!   rows with these codes, and the texts of all of them  -------------->  who gets rows: logs texts, then rows
//! ```
//!
//! A dictionary lies where a brick would ([`DictionaryId::place`]), with as many replicas. Its holders are those that serve
//! this place in a layout and those that it comes to; the owner is the first of those that serve it. Each holder has a *list*
//! of texts, and a text's place in the list is its code. With another layout comes another owner, or the same one anew: it
//! goes by its own list, and tells all holders what they lack. [`Dictionaries`] is the state of one node, [`DictionaryEffect`]
//! what its caller has to do.
//!
//! | file | what it is |
//! |---|---|
//! | `names.rs`, `message.rs`, `record.rs` | what is said, logged and told |
//! | `spellings.rs` | what a node was told: for good |
//! | `replica.rs`, `owner.rs` | a holder's list; what an owner knows of holders and askers |
//! | `state.rs`, `state/asking.rs`, `state/receive.rs` | the node: what happens to it |
//!
//! # As planned, and here
//!
//! | rule as planned | here |
//! |---|---|
//! | a code is logged on `replicas` nodes before it is given out | on all holders that the layout has (`CodesOnAllHolders`): those that serve the place, `replicas` less who is out of the view, and those that it comes to |
//! | LCE passes an epoch only on nodes that have its codes | a node takes rows only with the texts of their codes (`TextsWithRows`, `TextsBeforeRows`), and a reader elsewhere gets both. So LCE waits for nothing: it may reach a node in a message that does not say which epochs it has passed, and a node without rows need not know their texts |
//! | a node without a code asks, it never prunes by not knowing | the same (`UnknownIsAsked`) |
//!
//! # Why it is right
//!
//! *Lists.* One layout has one owner, in one life, which gives each place of its list once; so a text and its layout are one at
//! each place, and a holder takes a part only behind a text of the same layout as the owner's (`SamePast`). By induction two
//! lists that have the same layout at the same place are the same up to there. (This is the argument of Raft's logs, Ongaro
//! and Ousterhout 2014, with layouts for terms; views come from the keeper, so there is no vote, and all holders have to
//! answer, no majority.)
//!
//! **Who serves a dictionary's place has every code that was told, on disk.** A code was told in a layout in which all its
//! holders had answered, with their disks (`CodesOnAllHolders`, `LogBeforeAnswer`) and in that layout (`SameView`). Go on to
//! the next layout. Who serves in it served before, or was one that the place came to: both had answered. One that came back
//! with its log and keeps its place was a member until then, in the life before, so nothing was told without its log. Who
//! comes to serve by a move told the keeper after it had all of the owner's list as it was at some moment of that layout
//! (`AllCodesBeforeServing`); what was told later in the layout has its answer, since it was a holder. So by induction all
//! that serve have all; the keeper leaves at least one, while fewer nodes than `replicas` fail; and the owner is one of them
//! (`OneOwner`). What makes room for an owner's part is different from the owner's list, so it was never told, and nor was
//! anything behind it, since a list is told from its begin on.
//!
//! **A code has one text, and a text one code, for all that anybody was ever told.** Let two of them be told, the second by
//! an owner that has the first in its list, by the above: at the same place there is one text. And a text that is in the list,
//! told or not, gets no other place (`OneCodePerText`). A list has the texts of one owner's list, so no text twice.
//!
//! *An owner that is none any more*, because it was removed and does not know, tells only what all its holders answered before
//! they went on: the keeper leaves one of these that served, which has it in its list, and answers nothing of the old layout.
//!
//! **Rows never lack their texts.** Who appends rows was told their codes, and logs that before (`TextsStay`). Who gets rows
//! takes in the texts that come with them first, in the same log (`TextsBeforeRows`): whatever part of the log is on disk, rows
//! in it come after their texts. Who copies a brick gets with it the texts of all codes in it, which the giver has by this rule.
//!
//! **What is not found is not there.** A reader asks after it has got its snapshot. Rows that it sees were decided in its view or
//! before; their codes were told before they were appended, so in its layout or before; and the owner in its layout has all
//! of these in its list. One that is there and not settled in this layout may have been told in an earlier one: the owner
//! answers when it is settled.
//!
//! **It goes on**, as bricks do: a dictionary whose holder is down gives no new codes until the keeper has removed that node,
//! or the node has come back. A load waits so long, within the bound of [`DictionaryBounds::patience`]; then it fails with an
//! error that names the owner. What was given stays, so whoever asks again gets the same codes.
//!
//! # How it is tested
//!
//! `tests/simulator` drives this code beside that of the epochs, on the same machines with one log each: rows have codes. With
//! every event: one text for a code and one code for a text, over all that any node was told at any time; whatever rows a node
//! has, it has their texts; whoever knows all texts sends nothing; no reader is told that a text has no code which was told to
//! somebody. Now and then, and at the end: what was told is on the disks of all that serve its place. When faults end, whoever
//! asks is answered. `tests/rules.rs` leaves out each rule; `tests/dictionaries.rs` has a story for each, which ends badly
//! without it.
//!
//! # Costs
//!
//! For h holders a new text costs an Ask and its answer, h Give and h Logged, and one sync on each holder in turn after the
//! owner has given it; what is asked while holders are busy goes together. A new layout costs a Give and an answer for each
//! dictionary and holder. A holder keeps about 60 bytes and the text for each code, and the same again for those that it was
//! told; an append has the texts of its codes with it. An owner keeps the texts of an ask until it has answered, or the asker has
//! not asked again for as many resends as it is patient: so long as a holder is down, what has been given up does not add up.
//!
//! # What the caller owes
//!
//! One log for records of epochs and of dictionaries, in the order of the effects; each view to both at once. The effects of
//! [`learn`](Dictionaries::learn) are done before the rows are handed on. Who gives bricks to a node names what it
//! [`gives`](Dictionaries::gives) to it and [`spell`](Dictionaries::spell)s the codes in them; who gets them says
//! [`copied_all`](crate::cluster::ClusterNode::copied_all) only if it [`has_all`](Dictionaries::has_all).
//!
//! # Open questions
//!
//! - A text that no row has any more keeps its code. A dictionary that is full stays full.
//! - An append has the texts of all its codes, also for holders that know them.
//! - A node that was told a code has it in memory for good, also if it had the rows for a while alone.

mod message;
mod names;
mod owner;
mod record;
mod replica;
mod spellings;
mod state;

pub use message::{DictionaryBody, DictionaryMessage, Purpose};
pub use names::{Code, DictionaryBounds, DictionaryId, GivenText, Spelling};
pub use record::{AskId, AskOutcome, Asked, DictionaryEffect, DictionaryError, DictionaryRecord};
pub use state::Dictionaries;
