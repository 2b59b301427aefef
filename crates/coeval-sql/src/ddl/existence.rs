// SPDX-License-Identifier: Apache-2.0
//! What a statement does if its object is there already, or is not there.

/// What to do if the object is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// `IF NOT EXISTS`.
    Keep,
    /// An error.
    Refuse,
}

/// What to do about a name that stands for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// `IF EXISTS`.
    Skip,
    /// An error.
    Refuse,
}
