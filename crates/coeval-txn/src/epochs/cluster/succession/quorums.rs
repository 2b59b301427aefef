// SPDX-License-Identifier: Apache-2.0
//! How many nodes have to hold a record, and how many have to answer who wants to find it.

/// How many of so many members have to hold a record.
pub(super) fn holders_needed(members: usize, replicas: usize) -> usize {
    let needed = replicas.min((members + 1).saturating_sub(replicas)).max(1).min(members);
    assert!(members == 0 || needed > 0, "what nobody holds nobody finds");
    needed
}

/// How many of them have to answer, so that one of those that hold a record is among them.
pub(super) fn answers_needed(members: usize, replicas: usize) -> usize {
    let needed = if members == 0 { 0 } else { members + 1 - holders_needed(members, replicas) };
    assert!(needed <= members, "all that there are is enough");
    needed
}

#[cfg(test)]
mod tests {
    use super::{answers_needed, holders_needed};

    /// To break it: ask for one answer less.
    #[test]
    fn who_answers_and_who_holds_have_somebody_in_common() {
        for members in 1..20 {
            for replicas in 1..6 {
                let (hold, answer) = (holders_needed(members, replicas), answers_needed(members, replicas));
                assert!(hold >= 1 && answer >= 1 && hold <= members && answer <= members);
                assert!(hold + answer > members, "{members} members, {replicas} replicas");
            }
        }
        assert_eq!(
            (holders_needed(0, 2), answers_needed(0, 2)),
            (0, 0),
            "nobody is there before the first record"
        );
    }

    /// As many as may be lost may be away: while there is a keeper, and from 2r - 1 members on also when one begins.
    #[test]
    fn so_many_may_be_away() {
        for replicas in 1..6_usize {
            for members in replicas..20 {
                let away = replicas - 1;
                assert!(holders_needed(members, replicas) <= members - away);
                if members >= 2 * replicas - 1 && replicas >= 2 {
                    assert!(answers_needed(members, replicas) <= members - away);
                }
            }
        }
        let table = [(3, 2, 2, 2), (4, 2, 2, 3), (5, 3, 3, 3), (2, 2, 1, 2), (3, 3, 1, 3), (3, 1, 1, 3)];
        for (members, replicas, hold, answer) in table {
            assert_eq!(
                (holders_needed(members, replicas), answers_needed(members, replicas)),
                (hold, answer)
            );
        }
    }
}
