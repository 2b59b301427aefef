// SPDX-License-Identifier: Apache-2.0
//! What concurrent transactions may and may not see of each other, by the names of the anomalies.
//!
//! Each case is a script: steps of two or three sessions, in the order in which they run, with what each
//! must give (see [`script`]). Nothing waits, so the interleaving is exactly the one that is written down.
//! [`anomalies`] holds the classic ones, [`constraints`] write skew that would break a constraint,
//! [`definitions`] DDL beside DML, [`row_locks`] `FOR UPDATE`.

mod anomalies;
mod constraints;
mod definitions;
mod row_locks;
mod script;
