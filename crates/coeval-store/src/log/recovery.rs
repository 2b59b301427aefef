// SPDX-License-Identifier: Apache-2.0
//! What it means that the walk through a segment stopped: the recovery cases as data.

/// Where the segment behind this one starts, compared with the place where the walk stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Successor {
    /// This is the last segment.
    None,
    /// Exactly here.
    Here,
    /// Before or behind.
    Elsewhere,
}

/// What the file holds from the place on where the walk stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Nothing, or only zeros.
    Blank,
    /// Other bytes, none of which begin with a valid record.
    Bytes,
}

/// Whether a valid header further on, or the note of a close, says that the log was durable beyond the place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attested {
    /// Nothing does.
    No,
    /// Something does.
    Yes,
}

/// Whether the walk came as far as the checkpoint says the log was durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checkpoint {
    /// It did.
    Reached,
    /// It stopped before.
    NotReached,
}

/// What is known where the walk stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stop {
    pub(crate) successor: Successor,
    pub(crate) rest: Rest,
    pub(crate) attested: Attested,
    pub(crate) checkpoint: Checkpoint,
}

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Go on in the next segment.
    Continue,
    /// The log ends here.
    End,
    /// The log ends here, and the bytes from here on are cut off.
    TornTail,
    /// Stop: what was durable is not valid any more.
    Damaged,
    /// Stop: the log ends before the checkpoint's place.
    EndsTooEarly,
    /// Stop: a segment between this one and the next is gone.
    MissingSegment,
}

/// A row of the table: the conditions (`None`: any) and the decision.
pub(crate) struct RecoveryCase {
    successor: Successor,
    rest: Option<Rest>,
    attested: Option<Attested>,
    checkpoint: Option<Checkpoint>,
    decision: Decision,
}

impl RecoveryCase {
    fn matches(&self, stop: Stop) -> bool {
        self.successor == stop.successor
            && self.rest.is_none_or(|rest| rest == stop.rest)
            && self.attested.is_none_or(|attested| attested == stop.attested)
            && self.checkpoint.is_none_or(|checkpoint| checkpoint == stop.checkpoint)
    }
}

/// The table of `log.rs`, row by row. Each [`Stop`] matches exactly one row.
pub(crate) const RECOVERY_CASES: [RecoveryCase; 7] = [
    RecoveryCase {
        successor: Successor::Here,
        rest: None,
        attested: None,
        checkpoint: None,
        decision: Decision::Continue,
    },
    RecoveryCase {
        successor: Successor::Elsewhere,
        rest: Some(Rest::Blank),
        attested: None,
        checkpoint: None,
        decision: Decision::MissingSegment,
    },
    RecoveryCase {
        successor: Successor::Elsewhere,
        rest: Some(Rest::Bytes),
        attested: None,
        checkpoint: None,
        decision: Decision::Damaged,
    },
    RecoveryCase {
        successor: Successor::None,
        rest: None,
        attested: Some(Attested::Yes),
        checkpoint: None,
        decision: Decision::Damaged,
    },
    RecoveryCase {
        successor: Successor::None,
        rest: None,
        attested: Some(Attested::No),
        checkpoint: Some(Checkpoint::NotReached),
        decision: Decision::EndsTooEarly,
    },
    RecoveryCase {
        successor: Successor::None,
        rest: Some(Rest::Blank),
        attested: Some(Attested::No),
        checkpoint: Some(Checkpoint::Reached),
        decision: Decision::End,
    },
    RecoveryCase {
        successor: Successor::None,
        rest: Some(Rest::Bytes),
        attested: Some(Attested::No),
        checkpoint: Some(Checkpoint::Reached),
        decision: Decision::TornTail,
    },
];

/// The decision of the one row that `stop` matches.
///
/// # Panics
/// Never: a test holds that each stop matches exactly one row.
pub(crate) fn decide(stop: Stop) -> Decision {
    RECOVERY_CASES
        .iter()
        .find(|case| case.matches(stop))
        .expect("the table covers every stop, and a test holds that")
        .decision
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stop_meets_exactly_one_recovery_case() {
        let mut stops = 0;
        let mut used = [0; RECOVERY_CASES.len()];
        for successor in [Successor::None, Successor::Here, Successor::Elsewhere] {
            for rest in [Rest::Blank, Rest::Bytes] {
                for attested in [Attested::No, Attested::Yes] {
                    for checkpoint in [Checkpoint::Reached, Checkpoint::NotReached] {
                        let stop = Stop { successor, rest, attested, checkpoint };
                        let rows: Vec<usize> =
                            (0..used.len()).filter(|row| RECOVERY_CASES[*row].matches(stop)).collect();
                        assert_eq!(rows.len(), 1, "{stop:?} meets rows {rows:?}");
                        used[rows[0]] += 1;
                        stops += 1;
                    }
                }
            }
        }
        assert_eq!(stops, 24);
        assert!(used.iter().all(|count| *count > 0), "a row that nothing meets: {used:?}");
    }
}
