// SPDX-License-Identifier: Apache-2.0
//! Tests of the safe snapshots that are made from a log. A world is the number of its version here.

use super::super::{FollowedSnapshots, Member};
use super::pipeline::id_of;
use crate::{CommitOrder, Version};

type Followed = FollowedSnapshots<u64, u64>;

fn version(number: u64) -> Version {
    Version::new(number)
}

/// The only commit of version `number`, with its first out-edge to that of version `first_out`.
fn commit(number: u64, first_out: u64) -> Member<u64> {
    let order = |number| CommitOrder { version: version(number), position: 0 };
    Member { order: order(number), transaction: id_of(0), first_out: order(first_out), writes: number }
}

/// What is shown where everything is.
const EVERYTHING: Version = Version::new(u64::MAX);

/// The next safe snapshot: its world, and what comes on top.
fn advance(followed: &mut Followed) -> Option<(u64, Vec<u64>)> {
    advance_to(followed, EVERYTHING)
}

/// The same where nothing newer than this version is shown.
fn advance_to(followed: &mut Followed, shown: Version) -> Option<(u64, Vec<u64>)> {
    followed.advance(shown).map(|(safe, world)| {
        assert_eq!(safe.boundary, version(world), "the world is that of the snapshot's boundary");
        (world, safe.members.iter().map(|member| member.writes).collect())
    })
}

/// A follower from the empty database on, which has handed out that.
fn from_nothing() -> Followed {
    let mut followed = Followed::new(Version::ZERO, 0);
    assert_eq!(advance(&mut followed), Some((0, vec![])));
    followed
}

#[test]
fn the_newest_world_at_or_below_the_boundary_is_used_and_each_once() {
    let mut followed = from_nothing();
    (1..=4).for_each(|number| followed.note_world(version(number), number));
    assert_eq!(advance(&mut followed), None, "no boundary is known");
    followed.note_boundary(version(3));
    assert_eq!(advance(&mut followed), Some((3, vec![])));
    assert_eq!((advance(&mut followed), followed.world_count()), (None, 1));
    followed.note_boundary(version(2));
    assert_eq!((advance(&mut followed), followed.boundary()), (None, version(3)));
}

#[test]
fn what_is_not_shown_yet_is_handed_out_once_it_is() {
    // What was shown once stays so: nothing is, yet.
    let mut followed = Followed::new(Version::ZERO, 0);
    assert_eq!(advance_to(&mut followed, Version::ZERO), Some((0, vec![])));
    (1..=4).for_each(|number| followed.note_world(version(number), number));
    followed.note_boundary(version(2));
    assert_eq!(advance_to(&mut followed, version(1)), Some((1, vec![])), "2 is not shown");
    followed.note_boundary(version(3));
    assert_eq!(advance_to(&mut followed, version(2)), Some((2, vec![])), "though the boundary has passed it");
    assert_eq!(advance_to(&mut followed, version(3)), Some((3, vec![])));
    assert_eq!(advance_to(&mut followed, version(4)), None, "the boundary is before 4");
}

#[test]
fn members_between_the_world_that_is_used_and_the_boundary_are_kept() {
    let mut followed = from_nothing();
    followed.note_world(version(2), 2);
    // The world of 3 is never made: 3 and 4 are applied together.
    followed.note_commit(commit(3, 2));
    followed.note_commit(commit(4, 3));
    followed.note_world(version(4), 4);
    followed.note_commit(commit(5, 4));
    followed.forget_unreachable();
    followed.note_boundary(version(3));
    followed.forget_unreachable();
    assert_eq!(advance(&mut followed), Some((2, vec![3])), "3 lies between 2 and the boundary");
    followed.note_boundary(version(4));
    assert_eq!(advance(&mut followed), Some((4, vec![5])));
}

#[test]
fn worlds_may_come_long_after_the_boundary() {
    let mut followed = from_nothing();
    for number in 2..=5 {
        followed.note_commit(commit(number, number - 1));
    }
    followed.note_boundary(version(5));
    assert_eq!(advance(&mut followed), None);
    for number in [1, 3] {
        followed.note_world(version(number), number);
        followed.forget_unreachable();
        assert_eq!(advance(&mut followed), Some((number, vec![number + 1])));
    }
    followed.note_world(version(4), 4);
    followed.note_world(version(6), 6);
    assert_eq!(advance(&mut followed), Some((4, vec![5])), "6 is beyond the boundary");
}

#[test]
fn a_base_copy_has_no_safe_snapshot_before_the_boundary_has_reached_it() {
    let mut followed = Followed::new(version(5), 5);
    followed.note_boundary(version(3));
    followed.note_commit(commit(6, 4));
    followed.note_world(version(6), 6);
    followed.note_boundary(version(4));
    assert_eq!(advance(&mut followed), None, "it has no world of version 4");
    followed.note_boundary(version(5));
    assert_eq!(advance(&mut followed), Some((5, vec![6])));
}

#[test]
fn a_base_copy_that_has_applied_more_begins_with_that() {
    let mut followed = Followed::new(version(5), 5);
    followed.note_world(version(8), 8);
    followed.note_boundary(version(9));
    assert_eq!(advance(&mut followed), Some((8, vec![])));
}

#[test]
fn worlds_that_wait_are_thinned_out_by_their_age() {
    let mut followed = from_nothing();
    let count = 100_000;
    for number in 1..=count {
        followed.note_world(version(number), number);
        assert!(followed.world_count() <= 64);
    }
    // Wherever the boundary comes to rest: what is used is not much older than that.
    let mut at = version(count - 1);
    let mut kept = Vec::new();
    followed.replace_worlds(|world| {
        kept.push(*world);
        *world
    });
    assert_eq!((kept[0], kept[63]), (1, count), "the oldest and the newest stay");
    while at >= version(1) {
        let used = kept[kept.partition_point(|kept| *kept <= at.get()) - 1];
        let (age, least) = (count - used, count - at.get());
        assert!(age <= least * 2, "{age} for {least}");
        at = version(at.get() - 1);
    }
    followed.note_boundary(version(count / 2));
    let (used, _) = advance(&mut followed).unwrap();
    assert!((count / 4..=count / 2).contains(&used), "{used}");
}

#[test]
fn the_newest_world_is_used_however_many_have_waited() {
    let mut followed = from_nothing();
    (1..=1000).for_each(|number| followed.note_world(version(number), number));
    followed.note_boundary(version(1000));
    assert_eq!(advance(&mut followed), Some((1000, vec![])));
    assert_eq!(followed.world_count(), 0);
}

#[test]
fn a_world_that_is_ready_stays_when_others_are_thinned_out() {
    let mut followed = from_nothing();
    followed.note_world(version(1), 1);
    followed.note_commit(commit(2, 1));
    followed.note_boundary(version(1));
    (2..=1000).for_each(|number| followed.note_world(version(number), number));
    assert_eq!(followed.world_count(), 65);
    assert_eq!(advance(&mut followed), Some((1, vec![2])));
}

#[test]
fn commits_that_can_be_members_at_no_world_are_forgotten() {
    let mut followed = from_nothing();
    followed.note_commit(commit(2, 1));
    for number in 3..100_000 {
        followed.note_commit(commit(number, number - 1));
        followed.note_world(version(number), number);
        assert!(followed.obscure_count() <= 2 * 65, "{}", followed.obscure_count());
    }
    // Behind each world that waits one commit points to it, but not yet behind the newest.
    followed.forget_unreachable();
    assert_eq!((followed.world_count(), followed.obscure_count()), (64, 63));
    followed.note_boundary(version(50_000));
    let (world, members) = advance(&mut followed).unwrap();
    assert_eq!(members, [world + 1], "the one that points to it");
}

#[test]
fn commits_behind_the_newest_world_are_kept() {
    let mut followed = from_nothing();
    for number in 2..1000 {
        followed.note_commit(commit(number, number - 1));
    }
    followed.note_world(version(1), 1);
    assert_eq!(followed.obscure_count(), 998, "there are enough to be worth a look");
    // All but the one of version 2, which is clear in every world to come and has no world before it.
    followed.note_boundary(version(1));
    assert_eq!(advance(&mut followed), Some((1, vec![2])));
    followed.forget_unreachable();
    assert_eq!(followed.obscure_count(), 997);
    followed.note_boundary(version(700));
    followed.note_world(version(700), 700);
    assert_eq!(advance(&mut followed), Some((700, vec![701])));
}

#[test]
fn equal_worlds_take_the_places_of_those_that_are_kept() {
    let mut followed = FollowedSnapshots::<String, ()>::new(version(1), "one".into());
    followed.note_world(version(2), "two".into());
    followed.note_world(version(2), "the same again".into());
    followed.replace_worlds(|world| format!("{world}, on disk"));
    followed.note_boundary(version(2));
    assert_eq!(followed.advance(EVERYTHING).unwrap().1, "two, on disk");
}

#[test]
#[should_panic(expected = "5.0 would change a safe snapshot up to 4")]
fn a_commit_that_points_within_a_noted_boundary_is_noticed() {
    let mut followed = from_nothing();
    followed.note_boundary(version(4));
    followed.note_commit(commit(5, 4));
}

#[test]
#[should_panic(expected = "5.0 comes behind its world 5")]
fn a_commit_that_is_noted_behind_its_world_is_noticed() {
    let mut followed = from_nothing();
    followed.note_world(version(5), 5);
    followed.note_commit(commit(5, 4));
}

#[test]
#[should_panic(expected = "the world goes back from 5 to 4")]
fn a_world_that_goes_back_is_noticed() {
    let mut followed = from_nothing();
    followed.note_world(version(5), 5);
    followed.note_world(version(4), 4);
}
