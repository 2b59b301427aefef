// SPDX-License-Identifier: Apache-2.0
use super::{LOADS_MAX, RecentLoad, RecentLoads};
use crate::id_value::key;
use crate::ids::SpaceId;
use coeval_txn::Version;

fn load(number: i32) -> RecentLoad {
    let version = Version::new(u64::try_from(number).unwrap());
    let table = SpaceId::new(u32::try_from(number % 3).unwrap());
    RecentLoad { version, table, first: key(number * 10), last: key(number * 10 + 5) }
}

#[test]
fn however_many_loads_there_are_each_is_covered_by_one_that_is_remembered() {
    let mut loads = RecentLoads::default();
    for number in 1..=10_000 {
        loads.note(load(number));
        assert!(loads.iter().count() < LOADS_MAX);
    }
    for number in 1..=10_000 {
        let one = load(number);
        let covers = |other: &RecentLoad| {
            other.table == one.table
                && other.version >= one.version
                && other.first <= one.first
                && other.last >= one.last
        };
        assert!(loads.iter().any(covers), "{one:?}");
    }
    let newest: Vec<_> = loads.iter().cloned().collect();
    assert!(newest.ends_with(&(9_900..=10_000).map(load).collect::<Vec<_>>()), "the newest ones are exact");
    loads.forget_through(Version::new(9_999));
    assert_eq!(loads.iter().cloned().collect::<Vec<_>>(), [load(10_000)]);
}
