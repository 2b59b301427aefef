// SPDX-License-Identifier: Apache-2.0
//! The definition of a foreign key.

use crate::ids::SpaceId;
use serde::{Deserialize, Serialize};

/// What happens to children when the parent goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReferentialAction {
    /// Refused when the statement ends with children left.
    NoAction,
    /// Refused at once.
    Restrict,
    /// Children go too.
    Cascade,
    /// The children's columns become NULL.
    SetNull,
    /// The children's columns take their defaults.
    SetDefault,
}

/// Whether the checks of a constraint may wait for the commit. Only checks wait: actions on the children of a parent
/// that goes are taken at once, and so is RESTRICT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deferral {
    /// `NOT DEFERRABLE`: checked when each statement ends.
    #[default]
    Never,
    /// `DEFERRABLE INITIALLY IMMEDIATE`: checked when each statement ends, unless the transaction puts it off.
    Immediate,
    /// `DEFERRABLE INITIALLY DEFERRED`: checked at commit, unless the transaction wants it at once.
    Deferred,
}

impl Deferral {
    /// Whether a transaction may choose when the constraint is checked.
    #[must_use]
    pub fn is_deferrable(self) -> bool {
        self != Self::Never
    }

    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Whether a constraint holds for all rows of its table, or only for those that were written since it is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Validity {
    /// All rows satisfy it.
    #[default]
    Valid,
    /// `NOT VALID`: rows that were there before it have not been looked at.
    NotValid,
}

impl Validity {
    /// Whether all rows satisfy the constraint.
    #[must_use]
    pub fn is_valid(self) -> bool {
        self == Self::Valid
    }

    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A `FOREIGN KEY` constraint of the child table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForeignKeyDef {
    /// Its name.
    pub name: String,
    /// The child's columns.
    pub columns: Vec<usize>,
    /// The parent table.
    pub parent: SpaceId,
    /// The parent's columns: its primary key or the columns of one of its unique indexes, in that order.
    pub parent_columns: Vec<usize>,
    /// On DELETE of the parent.
    pub on_delete: ReferentialAction,
    /// On UPDATE of the parent's key.
    pub on_update: ReferentialAction,
    /// Whether its checks may wait for the commit.
    #[serde(default, skip_serializing_if = "Deferral::is_default")]
    pub deferral: Deferral,
    /// Whether the rows that were there before it have parents.
    #[serde(default, skip_serializing_if = "Validity::is_default")]
    pub validity: Validity,
}
