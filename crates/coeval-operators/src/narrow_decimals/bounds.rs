// SPDX-License-Identifier: Apache-2.0
//! The least and the greatest value that a part of an expression can have.

/// Both are within the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) least: i64,
    pub(super) greatest: i64,
}

impl Bounds {
    /// Those of a single value.
    pub(super) fn of(value: i64) -> Self {
        Self { least: value, greatest: value }
    }

    /// Those of `a + b`; `None` if they do not fit, here and below.
    pub(super) fn sum(self, other: Self) -> Option<Self> {
        let (a, b) = (self.wide(), other.wide());
        Self::around([a.0 + b.0, a.1 + b.1])
    }

    /// Those of `a - b`.
    pub(super) fn difference(self, other: Self) -> Option<Self> {
        let (a, b) = (self.wide(), other.wide());
        Self::around([a.0 - b.1, a.1 - b.0])
    }

    /// Those of `a * b`: which ends make them depends on signs.
    pub(super) fn product(self, other: Self) -> Option<Self> {
        let (a, b) = (self.wide(), other.wide());
        Self::around([a.0 * b.0, a.0 * b.1, a.1 * b.0, a.1 * b.1])
    }

    /// What is computed of two ends fits into 128 bits.
    fn wide(self) -> (i128, i128) {
        (self.least.into(), self.greatest.into())
    }

    /// The narrowest bounds with all these values.
    fn around<const N: usize>(values: [i128; N]) -> Option<Self> {
        let (least, greatest) = (values.iter().min()?, values.iter().max()?);
        Some(Self { least: i64::try_from(*least).ok()?, greatest: i64::try_from(*greatest).ok()? })
    }
}
