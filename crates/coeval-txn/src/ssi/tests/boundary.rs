// SPDX-License-Identifier: Apache-2.0
//! Tests of the boundary, of what safe snapshots hold, and of who may read one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::super::{Boundary, Deferral, HeldBack, Member, SafeSnapshots, SessionFloor};
use super::pipeline::id_of;
use crate::{CommitOrder, Version};

const MINUTE: Duration = Duration::from_secs(60);

fn version(number: u64) -> Version {
    Version::new(number)
}

fn at(number: u64, position: u32) -> CommitOrder {
    CommitOrder { version: version(number), position }
}

fn member(order: CommitOrder, first_out: CommitOrder) -> Member<&'static str> {
    Member { order, transaction: id_of(0), first_out, writes: "rows" }
}

#[test]
fn the_boundary_is_the_oldest_active_snapshot_or_the_published_version() {
    let boundary = Boundary::new(version(3));
    let now = Instant::now();
    let advance = |published| boundary.advance(now, None, || (version(published), published));
    assert_eq!(advance(3), None);
    let old = boundary.register(id_of(0), now, || (version(4), 4));
    let young = boundary.register(id_of(1), now, || (version(6), 6));
    assert_eq!(advance(9).map(|moved| (moved.boundary, moved.world)), Some((version(4), 4)));
    assert_eq!(boundary.holder().map(|holder| holder.transaction), Some(id_of(0)));
    let active: Vec<_> = boundary.active().iter().map(|active| active.begin.get()).collect();
    assert_eq!(active, [4, 6]);
    drop(old);
    assert_eq!(advance(9).map(|moved| (moved.boundary, moved.world)), Some((version(6), 6)));
    drop(young);
    assert_eq!(boundary.oldest_or(|| version(9)), version(9));
    assert_eq!(advance(9).map(|moved| (moved.boundary, moved.world)), Some((version(9), 9)));
    assert_eq!((boundary.holder(), boundary.count()), (None, 0));
}

#[test]
fn a_snapshot_of_an_applied_world_does_not_take_the_boundary_beyond_what_is_published() {
    let boundary = Boundary::new(version(0));
    let now = Instant::now();
    let _ahead = boundary.register(id_of(0), now, || (version(7), ()));
    assert_eq!(boundary.oldest_or(|| version(5)), version(5));
    let moved = boundary.advance(now, None, || (version(5), ()));
    assert_eq!(moved.map(|moved| moved.boundary), Some(version(5)));
    let behind = boundary.register(id_of(1), now, || (version(5), ()));
    assert_eq!(boundary.holder().map(|holder| holder.begin), Some(behind.begin()));
}

#[test]
fn the_boundary_passes_a_transaction_that_runs_for_too_long_and_holds_still_while_it_is_certified() {
    let boundary = Boundary::new(version(1));
    let start = Instant::now();
    let advance = |after, published| {
        let moved = boundary.advance(start + after, Some(MINUTE), || (version(published), ()));
        moved.map(|moved| moved.boundary.get())
    };
    let idle = boundary.register(id_of(0), start, || (version(1), ()));
    assert_eq!(advance(MINUTE, 5), None, "a minute is not longer than a minute");
    assert_eq!(advance(MINUTE * 2, 5), Some(5));
    assert_eq!(boundary.oldest_or(|| version(5)), version(1), "what it may be certified against is kept");
    assert_eq!(boundary.holder(), None);
    assert_eq!(idle.enter_certification(), Some(version(5)));
    assert_eq!(advance(MINUTE * 9, 8), None, "it is being certified");
    drop(idle);
    assert_eq!(advance(MINUTE * 9, 8), Some(8));
}

#[test]
fn a_transaction_that_is_certified_is_not_passed_until_it_is_published() {
    let boundary = Boundary::new(version(1));
    let start = Instant::now();
    let committing = boundary.register(id_of(0), start, || (version(1), ()));
    assert_eq!(committing.enter_certification(), None);
    assert_eq!(boundary.advance(start + MINUTE * 9, Some(MINUTE), || (version(5), ())), None);
}

#[test]
fn a_moved_snapshot_holds_the_boundary_where_it_is_now() {
    let boundary = Boundary::new(version(1));
    let start = Instant::now();
    let mut guard = boundary.register(id_of(0), start, || (version(1), ()));
    guard.refresh(version(4), (), Instant::now());
    assert!(!boundary.may_rest_in(version(1), version(4)) && boundary.may_rest_in(version(4), version(5)));
    let moved = boundary.advance(start, None, || (version(6), ()));
    assert_eq!((moved.map(|moved| moved.boundary), guard.begin()), (Some(version(4)), version(4)));
}

#[test]
fn a_deferred_reader_waits_for_those_who_began_before_and_for_nobody_else() {
    let boundary = Boundary::new(version(1));
    let now = Instant::now();
    let old = boundary.register(id_of(0), now, || (version(1), ()));
    let mut moved = boundary.register(id_of(1), now, || (version(2), ()));
    let _young = boundary.register(id_of(2), now, || (version(5), ()));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut waits = 0;
            while boundary.wait_while_held(version(5), None, None) == HeldBack::Was {
                waits += 1;
            }
            waits
        });
        while boundary.waiting_count() == 0 {
            std::thread::yield_now();
        }
        drop(old);
        // It may be about to look again.
        while boundary.waiting_count() == 0 {
            assert!(!reader.is_finished(), "another is older than the version");
            std::thread::yield_now();
        }
        moved.refresh(version(6), (), Instant::now());
        assert!(reader.join().unwrap() > 0);
    });
    assert_eq!(boundary.waiting_count(), 0);
    assert_eq!(boundary.wait_while_held(version(5), None, None), HeldBack::No);
}

#[test]
fn a_wait_for_one_that_may_be_passed_ends_when_it_may() {
    let boundary = Boundary::new(version(1));
    let _idle = boundary.register(id_of(0), Instant::now(), || (version(1), ()));
    let lag_max = Some(Duration::from_millis(20));
    let advance = || boundary.advance(Instant::now(), lag_max, || (version(3), ()));
    assert_eq!(advance(), None);
    while advance().is_none() {
        boundary.wait_while_held(version(3), lag_max, None);
    }
    assert_eq!((boundary.version(), boundary.waiting_count()), (version(3), 0));
}

#[test]
#[should_panic(expected = "snapshot 2 is behind the boundary 3")]
fn a_snapshot_behind_the_boundary_is_noticed() {
    let _ = Boundary::new(version(3)).register(id_of(0), Instant::now(), || (version(2), ()));
}

#[test]
fn the_boundary_never_passes_a_version_that_another_thread_is_about_to_take() {
    let boundary = Boundary::new(version(0));
    let published = AtomicU64::new(0);
    let now = Instant::now();
    let current = || version(published.load(Ordering::SeqCst));
    std::thread::scope(|scope| {
        for index in 0..3 {
            let (boundary, current) = (&boundary, &current);
            scope.spawn(move || {
                for _ in 0..20_000 {
                    // The registry itself asserts that the version is not behind the boundary.
                    let guard = boundary.register(id_of(index), now, || (current(), ()));
                    assert!(boundary.version() <= guard.begin());
                }
            });
        }
        for _ in 0..20_000 {
            published.fetch_add(1, Ordering::SeqCst);
            let moved = boundary.advance(now, None, || (current(), ()));
            assert!(moved.is_none_or(|moved| moved.boundary <= current()));
        }
    });
    let last = boundary.advance(now, None, || (current(), ()));
    assert!(last.is_none_or(|moved| moved.boundary == version(20_000)));
    assert_eq!((boundary.version(), boundary.count()), (version(20_000), 0));
}

#[test]
fn a_safe_snapshot_holds_those_beyond_the_boundary_that_point_within_it() {
    let mut safe = SafeSnapshots::new(version(1));
    safe.note_commit(member(at(4, 0), at(2, 1)));
    safe.note_commit(member(at(5, 0), at(4, 0)));
    safe.note_commit(member(at(5, 2), at(3, 0)));
    let held = |safe: &mut SafeSnapshots<_>, boundary| -> Vec<CommitOrder> {
        safe.advance(version(boundary)).members.iter().map(|member| member.order).collect()
    };
    assert_eq!(held(&mut safe, 2), [at(4, 0)]);
    assert_eq!(held(&mut safe, 3), [at(4, 0), at(5, 2)]);
    assert_eq!(held(&mut safe, 4), [at(5, 0), at(5, 2)]);
    assert_eq!(held(&mut safe, 5), []);
    assert_eq!(safe.obscure_count(), 0);
}

#[test]
#[should_panic(expected = "would change the safe snapshot of 3")]
fn a_late_member_is_noticed() {
    let mut safe = SafeSnapshots::new(version(3));
    safe.note_commit(member(at(5, 0), at(3, 0)));
}

#[test]
fn commits_between_which_the_boundary_cannot_rest_are_forgotten() {
    let boundary = Boundary::new(version(1));
    let now = Instant::now();
    let _oldest = boundary.register(id_of(0), now, || (version(1), ()));
    let _younger = boundary.register(id_of(1), now, || (version(500), ()));
    let mut safe = SafeSnapshots::new(version(1));
    for number in 3..1000 {
        safe.note_commit(member(at(number, 0), at(number - 1, 0)));
        safe.review(version(number), |first, end| boundary.may_rest_in(first, end));
    }
    assert!(safe.obscure_count() < 200, "{}", safe.obscure_count());
    let held = safe.advance(version(500));
    assert_eq!(held.members.len(), 1, "the one that points to version 500 stays");
}

/// Sixty-four of them were kept before anybody looked, of whatever size.
#[test]
fn few_large_write_sets_that_can_never_be_members_are_forgotten_as_well() {
    let boundary = Boundary::new(version(1));
    let _idle = boundary.register(id_of(0), Instant::now(), || (version(1), ()));
    let mut safe = SafeSnapshots::new(version(1));
    for number in 3..60 {
        safe.note_commit(member(at(number, 0), at(number - 1, 0)));
        safe.note_bytes(20 << 20);
        // The newest is not published yet.
        safe.review(version(number - 1), |first, end| boundary.may_rest_in(first, end));
        assert!(safe.obscure_count() <= 5, "{}", safe.obscure_count());
    }
}

#[test]
fn a_session_finds_its_own_commit_and_what_it_has_seen() {
    let mut safe = SafeSnapshots::new(version(1));
    safe.note_commit(member(at(4, 1), at(2, 0)));
    let snapshot = safe.advance(version(3));
    let mut floor = SessionFloor::default();
    assert!(floor.admits(&snapshot), "a new session has no floor");
    floor.note_snapshot(version(2));
    floor.note_commit(at(3, 7));
    assert!(floor.admits(&snapshot), "version 3 is within the boundary");
    floor.note_commit(at(4, 1));
    assert!(floor.admits(&snapshot), "the commit is beyond the boundary and a member");
    floor.note_snapshot(version(4));
    assert!(!floor.admits(&snapshot), "the session has seen all of version 4");
    let mut other = SessionFloor::default();
    other.note_commit(at(4, 0));
    assert!(!other.admits(&snapshot), "another commit of that batch is not a member");
    other = SessionFloor::default();
    other.note_safe_snapshot(snapshot.boundary);
    assert!(other.admits(&snapshot), "a safe snapshot may be read twice");
}

#[test]
fn a_deferred_reader_waits_for_the_version_that_was_current() {
    let deferral = Deferral::until(version(7));
    assert!(!deferral.is_over(version(6)) && deferral.is_over(version(7)) && deferral.is_over(version(8)));
}
