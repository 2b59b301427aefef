// SPDX-License-Identifier: Apache-2.0
//! What concurrent transactions may and may not see of each other, by the names of the anomalies.
//!
//! Each case is a script: steps of two or three sessions, in the order in which they run, with what each
//! must give (see [`script`]). A step that waits for a row lock says so, and the next one runs when it does, so
//! the interleaving is exactly the one that is written down.
//! [`anomalies`] holds the classic ones, [`levels`] the table of all of them by level, [`constraints`] write skew that would break a constraint,
//! [`definitions`] DDL beside DML, [`row_locks`] `FOR UPDATE` and its weaker forms, [`read_committed`] statements
//! that each have their own snapshot, [`serializable`] what SERIALIZABLE adds, [`precise_reads`] which part of a table counts as
//! read, [`upserts`] `ON CONFLICT` there, [`priority`] one that loses once at most, [`contention`] many threads on few rows,
//! [`deferrable`] readers that would rather wait, [`figure_two`] the eight transactions of the RSS paper's Figure 2, [`conflicts`] what is told of who was refused.

mod anomalies;
mod conflicts;
mod constraints;
mod contention;
mod deferrable;
mod definitions;
mod figure_two;
mod levels;
mod parts;
mod precise_reads;
mod priority;
mod read_committed;
mod row_locks;
mod script;
mod serializable;
mod upserts;
