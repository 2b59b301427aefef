// SPDX-License-Identifier: Apache-2.0
//! Keepers one after the other: how the next one finds what those before it have recorded, and how one that is superseded
//! learns so.
//!
//! A keeper is beside the primary and ends with it; the next one is beside the next primary, on whichever node. Its term is
//! that of the primary, and which start of a keeper it is. It asks the nodes which records they hold, goes on after the
//! best of these, and has its own records held by enough of them before anybody uses one. So nothing that was used is lost
//! with the keeper, its node, or that node's disk, and it does not matter whether the log of the primary had reached
//! anybody.
//!
//! ```text
//!   next keeper, term 4, at n2                n1, n2, n3: each holds records on disk
//!     Ask(4) ------------------------------->  promise: nothing of a term below 4 from now on
//!     <------- Has(records, settled) --------
//!     of enough: the records of the newest term, and of these the most
//!     + its first record: Keeper(4, n2)
//!     Hold(4, records) --------------------->  these in the place of what was held and not settled
//!     <------- Holds(through) --------------
//!     of enough: settled; nodes follow it
//!     the next record, and so on, one at a time
//!   an older keeper, term 3, is back
//!     Hold(3, ..) -------------------------->
//!     <------- Newer(4) --------------------   it ends
//! ```
//!
//! [`ViewHolder`] is a node's part, [`NextKeeper`] the one that asks, [`TermKeeper`] the one that has begun, which has a
//! [`ViewKeeper`](super::ViewKeeper) decide what is recorded.
//!
//! # How many are enough
//!
//! Of the n members of a view, with r replicas of each brick, `max(1, min(r, n + 1 - r))` have to **hold** a record that is
//! written there, and as many have to **answer** the next keeper that one of them is among any so many: n + 1 less that.
//!
//! | n | r | hold | answer | may be away while there is a keeper | may be away when one begins |
//! |---|---|---|---|---|---|
//! | 3 | 2 | 2 | 2 | 1 | 1 |
//! | 4 | 2 | 2 | 3 | 2 | 1 |
//! | 5 | 3 | 3 | 3 | 2 | 2 |
//! | 2 | 2 | 1 | 2 | 1 | 0 |
//! | 3 | 3 | 1 | 3 | 2 | 0 |
//! | 3 | 1 | 1 | 3 | 2 | 0 |
//!
//! Why so: fewer than r nodes may be lost, so r is the most that is worth holding; and with so many away a keeper that
//! lives must be able to record that they are, so no more than n + 1 - r. If that leaves r, which takes 2r - 1 nodes, a
//! keeper that begins may find as many away, the node of the last one among them. If it leaves fewer, it finds fewer: two
//! nodes with two replicas cannot each go on without the other one, or they would be two clusters. Where one that holds is
//! enough, that one is the keeper's own node, which holds its records first; so the node of the last keeper alone is enough
//! to begin by, too, unless it has answered a later one elsewhere (`NoLaterElsewhere`): then that one may have begun and
//! recorded something.
//!
//! Who has lost its disk since the view has it does not count, neither among those that hold nor among those that answer
//! (`LostDiskCountsNot`): what it has promised and held is gone.
//!
//! # Why it is right
//!
//! *Records.* A list of records is that of one keeper, which has gone on after another list with its record of term t, and
//! has written behind that; so its term is that of the last keeper's record in it. Of two lists of one term the shorter one
//! is the beginning of the longer one. A record is **settled** when its keeper knows that it is held by enough: the whole
//! list up to it and to that keeper's own first record, and of each record in it that is not known to be settled by enough
//! of the members of the view before that (`HeldByEnough`, `EachViewHolds`). What was held for an earlier keeper does not
//! count: who says that it holds for term t holds the record with which t begins. A keeper writes one record at a time, and
//! none before its first one is settled.
//!
//! **No two settled records have one number.** *The list of whoever begins has all that is ever settled in earlier terms.*
//! Let it be so for all keepers before t'. Let Q be those that t' has heard, and C the best list among theirs: of the
//! newest term, and of these the longest (`NewestTermFirst`). Take a term t < t' that settles something, and let C have all
//! that is settled in terms before t.
//! - *C is of a term above t*: its keeper had all of t's when it began.
//! - *C is of a term below t.* Let P be what is settled in terms before t, and M the members at its end. t began with P,
//!   and no more was known to be settled then (who has learned of a later keeper answers none before it), so its first
//!   record was held by enough of M when it was settled: by H. C has P, and no more of it is known to be settled to those
//!   of Q, who would have something of t otherwise; so enough of M are in Q (`EachViewAnswers`, `EnoughAnswers`). So
//!   somebody of M is in H and in Q, and had its disk all the time (`HeldOnDisk`). It held for t before it answered t',
//!   since it takes nothing of smaller terms after that (`TermsKept`). What it holds makes room for lists of greater terms
//!   alone. So it has answered with a list of t or above, and C is not the best.
//! - *C is of term t, and shorter than what t settles.* The record of t behind its end was held by enough of the members at
//!   its end, who are among those whose answers count. The same somebody has answered with a longer one.
//! - *Q is the node of the last keeper in C, a, alone* (in M one is enough), and a < t. If t began by all of M, the node of
//!   a was among them; it answered t before t', and says so, or, if t was on the same node, has the first record of t,
//!   which was held there first. If t began by the node of a alone, the same. The third way is that t began by the node of
//!   another last keeper, b, alone. But that is not possible while nothing is settled between: of a and b the later one, c,
//!   had begun by all of M, so by the node of the earlier one, or by that alone, so that the earlier one's node says so; or
//!   by the node of yet another one, d, which is below c. Then the same holds of the earlier one and d, and so on; and the
//!   first of all had none before it.
//!
//! *Lists without a keeper* that are longer than one record are of clusters that are older than terms. Their keeper was on
//! the founder, whose log alone counted: what is used is there, and perhaps nowhere else. So nobody begins without the
//! founder's answer, and it is enough if the founder has answered nobody elsewhere, who would have had to ask it too. That
//! nodes of such a cluster have promised and held nothing is true since the life in which their disk had its first record,
//! and that is what they say (`log_since`): else all of them would count as having lost their disks, and the first
//! keeper's record could not be settled by one founder among three nodes.
//!
//! **What was used is not lost.** Nodes follow settled records alone, and each begins with all that were. So views are one
//! sequence, as everything else here takes for granted.
//!
//! *Outcomes* show why the first node that follows a record must not be the only one that holds it. It may show that a dead
//! coordinator's load was rolled back, as it has not logged the commit; if it dies then, a keeper that does not know would
//! hear of those alone that have, and record that the load has committed.
//!
//! **It goes on.** When faults end and one keeper is newer than all others, enough nodes answer it, it begins, its records
//! are held. A node that has lost its disk counts again with the record that has it join with the new one.
//!
//! *Of the primary's log* this needs nothing but the number of its term, so that the keeper is where the newest primary is.
//! A promotion that accepts loss takes rows, and no views.
//!
//! # Without nodes that are lost for good
//!
//! Whoever runs the cluster may say that some nodes, L, are lost with their disks, when too few are left to begin by. Then a keeper begins
//! behind the best list of the others ([`NextKeeper::begin_without`]). Each other member of each view that it goes by, with its disk, has
//! answered (`HearsAllLeft`), so has its own node, and fewer nodes with bricks are in L than a brick has replicas. Its first record,
//! [`Recovered`](super::ViewChange::Recovered), has L removed; it is held by as many as ever, or by all that are left, if these are fewer.
//!
//! **What is kept**: each record that somebody has followed who is not in L, and is a member of a view that the keeper goes by. That one has
//! answered with a list that has it, and C, the best one, is of that term and no shorter, or of a greater one; so C has it as above,
//! unless it was given up by an earlier keeper of this kind. What is **given up** is what only others have: those in L, and nodes that came
//! in views of which only those in L have told. Loads that were decided in a view of C are in the state that they are in when all of L stops
//! in the last view of C; so what was acknowledged there is kept, since a node with each brick is left. Loads that were decided in later
//! views are given up with these: nobody who is left was a holder for them.
//!
//! That each of the others has answered with what it has followed is not so where C has no keeper, in a cluster that is older than terms: its
//! nodes held nothing of what they followed with that program. So the founder has to be among those that have answered here, too.
//!
//! **One list of views among those that go on.** That L is lost means here: nobody in L answers a keeper, or holds for one, that somebody
//! of the others hears of. Let R be the record, settled, and t'' a later keeper. If it goes by a view before R, enough of its members M
//! have answered it. Of those who hold R either there are as many as ever, and one of them is among these; or they are all of M but L, and
//! somebody who is not in L is among these, since not all who answer are in L. So t'' begins behind R, as above.
//!
//! **Who is back after all** has another list: records that are not in that of the others. Two lists that have the same recoveries up to a view
//! are the same up to there, as there is one sequence between two of them; where they are not, that of the greater term of a
//! [recovery](super::View::recovered_through) is the one to go by. So a node tells by that whether it may hold what a keeper says
//! (`OneListOfViews`), and the caller, before it gives records to another node, whether these are behind what that one has followed. It
//! owes that; it has a node follow first what it holds itself, and takes nothing at all of who is given up. Both kinds of nodes, those in L and those
//! that came in views that were given up, begin anew, with nothing on disk. Those that cannot reach any of the others may go on by
//! themselves, as long as they cannot: nobody could tell them.
//!
//! # Records that say nothing more
//!
//! A node may have one record, [`Whole`](super::ViewChange::Whole), stand for all that it knows to be settled up to some view, and for no
//! others (`OnlySettledIsFolded`). That is a function of these records, so it is the same whoever makes it.
//!
//! - *Who begins* looks at each view that is not known to be settled, and all of these are behind it. Its rank, by the last keeper's term and the
//!   last number, is the same. It does not look whether enough have answered for a view within it: if these were not settled, it might go by them
//!   though a later keeper has begun without, as by `EachViewAnswers`.
//! - *Who holds* for a keeper whose list begins so takes it as it is if it is at none of its views, and what is behind it else; whether it goes by
//!   that list its recoveries tell.
//! - *Who follows* it is at no view yet. What it has not in the view are outcomes. Let O be one of them, and O' a later one, and a node of which
//!   something in O may be news: it has a place, so it was a member when O' was recorded, has told in its report what it had by then, and
//!   had followed O with all that comes of it on its disk (what is above LCE is not on its disk: so that is in `Whole`, `OutcomesStay`). So rows that O
//!   rolls back are cut in its log. A node without a place forgets all that is not ended, and copies. So the newest LCE, the lives that are
//!   closed, and what is committed above that LCE are enough. A life of the node that has come and gone in between is over, as the newest lives tell.
//!
//! One that is at an earlier view than its number, and gets no others, begins a new life, and follows it then.
//!
//! # How it is tested
//!
//! In one run of four with machines that break, `tests/simulator` has keepers begin anywhere at any moment while those
//! before them go on; two settled records of one number are a violation, and so is all that comes of them.
//! `tests/succession.rs` has a story for each rule, which ends badly without it. In runs of their own (`tests/simulator/losses.rs`) machines are
//! gone for good, and a keeper begins without them wherever it cannot begin by the others: views may be given up then that none of the others
//! has followed whom it had to hear, and nothing else.
//!
//! # Costs
//!
//! A record costs n Hold and their answers before it is used, and one sync on each node. A keeper that begins is sent by each node what
//! it holds: the last records, some hundred bytes each, and one for all before, with some dozen bytes for each node that there ever was.
//!
//! # What the caller owes
//!
//! Two keepers have not the same term. What [`ViewHolder::take_records`] gives is on disk before an answer leaves, and what a node has
//! followed before it does anything by that which somebody counts on: else a node that ends, and starts again, may not tell whoever begins
//! without lost nodes of views that it has followed, and loads that it has acknowledged there are given up. A life
//! of a node says truly since which one its disk has its records, all that it has promised among them.

mod holder;
mod message;
mod next_keeper;
mod quorums;
mod term_keeper;

pub use holder::ViewHolder;
pub use message::{HolderBody, HolderRecord, HolderSays, KeeperSays};
pub use next_keeper::{BeginError, NextKeeper, RecoverError};
pub use term_keeper::TermKeeper;

use super::view::{KeeperTerm, ViewRecord};

/// The term of the last keeper in a list.
fn term_of(records: &[ViewRecord]) -> KeeperTerm {
    let last = records.iter().rev().find_map(|record| record.change.keeper());
    last.map(|keeper| keeper.term).unwrap_or_default()
}
