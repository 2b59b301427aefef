// SPDX-License-Identifier: Apache-2.0
//! A follower that shows nothing new until it is told.

use super::*;
use coeval_txn::Version;

#[test]
fn a_paused_follower_shows_any_version_that_is_asked_for() {
    let (primary, _, store, mut follower) = small_pair();
    let mut feed = feed_of(&primary, &follower).unwrap();
    take_all(&mut feed, &mut follower);
    let def = primary.world().tables().next().unwrap().def().clone();
    let before = store.world().version();
    store.pause_showing(None).unwrap();
    assert!(store.is_showing_paused());
    for id in 1_000..1_010 {
        let mut tx = primary.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        tx.insert(def.id, row(&def, id, 0)).unwrap();
        tx.commit().unwrap();
    }
    take_all(&mut feed, &mut follower);
    assert_eq!(store.world().version(), before);
    assert_eq!(store.begin(Isolation::Serializable, AccessMode::ReadOnly).begin_version(), before);
    let rows = |store: &Store| store.world().table(def.id).unwrap().row_count();
    let had = rows(&store);
    for step in [3, 4, 7] {
        let version = Version::new(before.get() + step);
        store.pause_showing(Some(version)).unwrap();
        assert_eq!((store.world().version(), rows(&store)), (version, had + step));
    }
    store.resume_showing().unwrap();
    assert_eq!(store.world().version(), primary.world().version());
    assert_eq!(
        store.begin(Isolation::Serializable, AccessMode::ReadOnly).begin_version(),
        primary.world().version()
    );
    assert!(matches!(primary.pause_showing(None), Err(StoreError::FollowsNobody { .. })));
}
