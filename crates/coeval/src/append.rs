// SPDX-License-Identifier: Apache-2.0
//! How rows are appended to a brick table.

use coeval_store::SourceOffset;

/// How a load of a brick table goes. By default all its rows must be good, and it names no source.
#[derive(Clone, Debug, Default)]
pub struct AppendOptions {
    pub(crate) rejected_max: usize,
    pub(crate) source: Option<SourceOffset>,
}

impl AppendOptions {
    /// Leaves out up to so many bad rows, and reports them; one more and nothing is loaded.
    #[must_use]
    pub fn max_rejected(mut self, rows: usize) -> Self {
        self.rejected_max = rows;
        self
    }

    /// The load is what `source` has up to `offset`, which is committed with its rows. A load of a source whose offset
    /// is not greater than the last one is a repetition: it changes nothing.
    #[must_use]
    pub fn source(mut self, source: impl Into<String>, offset: i64) -> Self {
        self.source = Some(SourceOffset { source: source.into(), offset });
        self
    }
}
