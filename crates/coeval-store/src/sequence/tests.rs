// SPDX-License-Identifier: Apache-2.0
//! Sequences on a simulated disk, and on a log whose syncs last as long as a test wants.

mod crash_model;
mod waiting;

use crate::catalog::{QualifiedName, SequenceDef};
use crate::ids::SequenceId;

/// 1, 2, 3 and so on.
fn numbers(id: u32) -> SequenceDef {
    SequenceDef {
        id: SequenceId::new(id),
        name: QualifiedName::new("public", "numbers"),
        start: 1,
        increment: 1,
        min: 1,
        max: i64::MAX,
        cycle: false,
        ty: Default::default(),
        owned_by: None,
        access: Default::default(),
    }
}
