// SPDX-License-Identifier: Apache-2.0
mod simulator;

use super::*;

use simulator::{Fault, simulate};

fn clocks(nodes: &[EpochNode; 3]) -> [u64; 3] {
    nodes.each_ref().map(|node| node.next().get())
}

#[test]
fn table_four_of_the_paper_is_reproduced() {
    let mut nodes = [1, 2, 3].map(|node| EpochNode::new(Stride::new(node, 3)));
    assert_eq!(clocks(&nodes), [1, 2, 3]);

    let (mut first, begin) = nodes[0].begin(2);
    assert_eq!((first.epoch().get(), clocks(&nodes)), (1, [4, 2, 3]), "create(n1) -> T1");

    let answers = [nodes[1].receive(&begin), nodes[2].receive(&begin)];
    assert_eq!(clocks(&nodes), [4, 5, 6], "append(T1), the answers still under way");

    let (sixth, _) = nodes[2].begin(2);
    assert_eq!((sixth.epoch().get(), clocks(&nodes)), (6, [4, 5, 9]), "create(n3) -> T6");
    let (fifth, _) = nodes[1].begin(2);
    assert_eq!((fifth.epoch().get(), clocks(&nodes)), (5, [4, 8, 9]), "create(n2) -> T5, after T6");

    for answer in &answers {
        nodes[0].receive_answer(answer);
        first.add_pending(answer);
    }
    let commit = nodes[0].commit(&first);
    let answers = [nodes[1].receive(&commit), nodes[2].receive(&commit)];
    answers.iter().for_each(|answer| nodes[0].receive_answer(answer));
    assert_eq!(clocks(&nodes), [10, 8, 9], "commit(T1)");
}

#[test]
fn a_transaction_that_reads_first_waits_for_all_answers() {
    let mut nodes = [1, 2].map(|node| EpochNode::new(Stride::new(node, 2)));
    let (mut transaction, begin) = nodes[0].begin(1);
    assert_eq!(transaction.snapshot(), None);
    let answer = nodes[1].receive(&begin);
    transaction.add_pending(&answer);
    assert_eq!(transaction.snapshot(), Some(EpochSet::none()));
}

/// The write skew of AOSI IV-B: neither of two concurrent loads sees the other. Snapshot isolation allows it.
#[test]
fn two_concurrent_loads_do_not_see_each_other() {
    let mut nodes = [1, 2].map(|node| EpochNode::new(Stride::new(node, 2)));
    let (mut one, begin_one) = nodes[0].begin(1);
    let (mut other, begin_other) = nodes[1].begin(1);
    let answer = nodes[1].receive(&begin_one);
    one.add_pending(&answer);
    let answer = nodes[0].receive(&begin_other);
    other.add_pending(&answer);
    assert!(!one.snapshot().unwrap().contains(other.epoch()));
    assert!(!other.snapshot().unwrap().contains(one.epoch()));
}

#[test]
fn snapshot_isolation_holds_over_random_schedules() {
    let mut reads = 0;
    for seed in 0..400 {
        reads += simulate(seed, Fault::None).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    }
    assert!(reads > 4_000, "the schedules read: {reads}");
}

#[test]
fn the_simulator_finds_what_goes_wrong_when_a_rule_is_left_out() {
    for fault in [
        Fault::NoPendingLists,
        Fault::NoClocks,
        Fault::ReadBeforeAnswers,
        Fault::NoDependenciesAtCommit,
        Fault::EndBeforeRowsAreGone,
    ] {
        let is_noticed = (0..20_000).any(|seed| simulate(seed, fault).is_err());
        assert!(is_noticed, "{fault:?} was not noticed");
    }
}
