// SPDX-License-Identifier: Apache-2.0
//! A follower of a follower.

use super::*;

const LAST: &str = "/last";

fn open_last(files: &SimulatedFiles) -> (Store, Follower) {
    let dir = Path::new(LAST);
    Store::open_follower_tuned(Arc::new(files.clone()), dir, options(), log_options(), sizes()).unwrap()
}

fn check(workload: &Workload, world: &World) -> Result<(), String> {
    let all = workload.all.as_ref().expect("it keeps all");
    all[&world.version().get()].check(world)
}

/// It has followed the primary itself meanwhile, say. Its log is no other history, and the rest may come.
#[test]
fn a_follower_that_is_ahead_of_the_one_it_follows_waits_for_it() {
    let (primary_files, files, last_files) =
        (SimulatedFiles::new(1), SimulatedFiles::new(2), SimulatedFiles::new(3));
    let mut primary = open_primary(&primary_files);
    let mut workload = Workload::new(1).keeping_all();
    let work = |workload: &mut Workload, primary: &Store| (0..20).for_each(|_| drop(workload.step(primary)));
    work(&mut workload, &primary);
    copy(&primary, &files);
    let mut middle = open_follower(&files);
    copy_to(&middle.0, &last_files, Path::new(LAST));
    let mut last = open_last(&last_files);
    // Once in the term that the one in the middle knows, and once in a later one.
    for is_later_term in [false, true] {
        if is_later_term {
            drop(primary);
            primary = open_primary(&primary_files);
        }
        work(&mut workload, &primary);
        take_all(&mut feed_of(&primary, &last.1).unwrap(), &mut last.1);
        last.1.sync().unwrap();
        let refused = feed_of(&middle.0, &last.1).err().unwrap();
        assert!(
            matches!(refused, StoreError::FollowerIsAhead { end, position } if end < position),
            "{refused}"
        );
        take_all(&mut feed_of(&primary, &middle.1).unwrap(), &mut middle.1);
        middle.1.sync().unwrap();
        let mut second = feed_of(&middle.0, &last.1).unwrap();
        work(&mut workload, &primary);
        take_all(&mut feed_of(&primary, &middle.1).unwrap(), &mut middle.1);
        middle.1.sync().unwrap();
        take_all(&mut second, &mut last.1);
        last.1.sync().unwrap();
        check(&workload, &last.0.world()).unwrap();
        assert_eq!(last.0.world().version(), primary.world().version());
    }
}

/// Random work on the primary; both links of the chain take some of it, make checkpoints and are opened again. What each shows
/// is the model's at that version, and the last is never ahead.
#[test]
fn a_follower_of_a_follower_has_what_the_primary_had() {
    for seed in 0..6 {
        let (primary_files, files) = (SimulatedFiles::new(seed), SimulatedFiles::new(seed + 100));
        let last_files = SimulatedFiles::new(seed + 200);
        let primary = open_primary(&primary_files);
        let mut workload = Workload::new(seed).keeping_all();
        (0..20).for_each(|_| drop(workload.step(&primary)));
        primary.checkpoint().unwrap();
        copy(&primary, &files);
        let mut middle = open_follower(&files);
        let mut feed = feed_of(&primary, &middle.1).unwrap();
        take_all(&mut feed, &mut middle.1);
        middle.0.checkpoint().unwrap();
        copy_to(&middle.0, &last_files, Path::new(LAST));
        let mut last = open_last(&last_files);
        let mut second = feed_of(&middle.0, &last.1).unwrap();
        for round in 0..40 {
            (0..5).for_each(|_| drop(workload.step(&primary)));
            take_all(&mut feed, &mut middle.1);
            feed.confirm(middle.1.sync().unwrap());
            if round % 3 == 0 {
                take_all(&mut second, &mut last.1);
                second.confirm(last.1.sync().unwrap());
            }
            match round % 8 {
                2 => drop(primary.checkpoint().unwrap()),
                3 => drop(middle.0.checkpoint().unwrap()),
                4 => drop(last.0.checkpoint().unwrap()),
                5 => {
                    drop((second, last));
                    last = open_last(&last_files);
                    second = feed_of(&middle.0, &last.1).unwrap();
                }
                7 => {
                    drop((second, feed, middle));
                    middle = open_follower(&files);
                    feed = feed_of(&primary, &middle.1).unwrap();
                    second = feed_of(&middle.0, &last.1).unwrap();
                }
                _ => {}
            }
            let shown = [&middle.0, &last.0].map(|store| store.world());
            for world in &shown {
                check(&workload, world).unwrap_or_else(|error| panic!("seed {seed} round {round}: {error}"));
            }
            assert!(shown[1].version() <= shown[0].version());
        }
        take_all(&mut feed, &mut middle.1);
        middle.1.sync().unwrap();
        take_all(&mut second, &mut last.1);
        assert_eq!(last.0.world().version(), primary.world().version());
        assert!(last.0.has_safe_snapshot());
        // The middle is promoted, and the last one goes on with it.
        last.1.sync().unwrap();
        drop((second, feed, middle));
        promote(&files, Path::new(COPY), Promise::asked_for(Timeline::new(2))).unwrap();
        let dir = Path::new(COPY);
        let promoted =
            Store::open_tuned(Arc::new(files.clone()), dir, options(), log_options(), sizes()).unwrap();
        let mut second = feed_of(&promoted, &last.1).unwrap();
        (0..20).for_each(|_| drop(workload.step(&promoted)));
        promoted.checkpoint().unwrap();
        take_all(&mut second, &mut last.1);
        check(&workload, &last.0.world()).unwrap();
        assert_eq!(last.0.world().version(), promoted.world().version());
    }
}
