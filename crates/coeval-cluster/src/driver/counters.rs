// SPDX-License-Identifier: Apache-2.0
//! What a node counts of its messages, by kind.

use crate::wire::FrameKind;

/// Messages of a kind and their bytes, as of one moment. What a node says to itself is not among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindCounts {
    /// Those that were given to the transport.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Those that came.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
}

/// What is counted of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageCounts {
    kinds: Vec<KindCounts>,
    /// Messages that the transport did not take, since too much waited for that node. They are sent again.
    pub not_taken: u64,
    /// Frames and requests that came and were no message of the sender's.
    pub refused: u64,
    /// Messages to itself.
    pub to_itself: u64,
}

impl Default for MessageCounts {
    fn default() -> Self {
        let kinds = vec![KindCounts::default(); FrameKind::ALL.len()];
        Self { kinds, not_taken: 0, refused: 0, to_itself: 0 }
    }
}

impl MessageCounts {
    pub(super) fn note_sent(&mut self, kind: FrameKind, bytes: usize) {
        let counts = &mut self.kinds[kind as usize];
        counts.sent += 1;
        counts.sent_bytes += bytes as u64;
    }

    pub(super) fn note_received(&mut self, kind: FrameKind, bytes: usize) {
        let counts = &mut self.kinds[kind as usize];
        counts.received += 1;
        counts.received_bytes += bytes as u64;
    }

    /// Each kind by its name, for a page of metrics.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, KindCounts)> + '_ {
        FrameKind::ALL.iter().map(|kind| (kind.name(), self.kinds[*kind as usize]))
    }

    /// The messages that loads cost, of those sent: requests and answers, without what is said regularly.
    #[must_use]
    pub fn sent_for_loads(&self) -> u64 {
        use FrameKind::{
            Append, Appended, Begin, Begun, Commit, CommitLogged, Cut, CutLogged, Decided, Ended, Heard,
            RowsMissing,
        };
        let kinds = [
            Begin,
            Begun,
            Append,
            Appended,
            Commit,
            CommitLogged,
            RowsMissing,
            Cut,
            CutLogged,
            Decided,
            Ended,
            Heard,
        ];
        kinds.iter().map(|kind| self.kinds[*kind as usize].sent).sum()
    }
}
