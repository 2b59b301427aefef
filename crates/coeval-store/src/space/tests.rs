// SPDX-License-Identifier: Apache-2.0
//! Changes are added to a delta the same way round whichever of the two is large.

use super::{Positions, SHARED_AT_FACTOR, add};
use crate::delta::{BasePosition, Change, Delta, DeltaEntry};
use crate::key::Key;
use crate::row::Row;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;

type Entries = BTreeMap<Key, DeltaEntry>;

/// Keys of two bytes, so that an order by bytes is one by numbers.
fn key(number: u16) -> Key {
    Key::from_slice(&number.to_be_bytes())
}

fn row(dice: &mut StdRng) -> Row {
    Row::from_bytes(&[dice.random()])
}

/// Whether changes say where old rows lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Nowhere,
    SomeInTheBase,
}

fn position(dice: &mut StdRng, found: Found) -> BasePosition {
    if found == Found::SomeInTheBase && dice.random() {
        BasePosition::at(dice.random_range(0..9))
    } else {
        BasePosition::UNKNOWN
    }
}

/// A change that may come after `earlier`.
fn change_after(earlier: Option<&DeltaEntry>, found: Found, dice: &mut StdRng) -> DeltaEntry {
    let at = position(dice, found);
    match (earlier.map(DeltaEntry::change), dice.random_range(0..3)) {
        (Some(Change::Deleted), _) | (None, 0) => DeltaEntry::inserted(Some(row(dice))),
        (_, 1) => DeltaEntry::replaced(row(dice), at),
        (_, _) => DeltaEntry::deleted(at),
    }
}

fn delta_of(entries: &Entries) -> Delta {
    Delta::from_sorted(entries.iter().map(|(key, entry)| (key.clone(), entry.clone())).collect::<Vec<_>>())
}

fn seen(
    entries: impl Iterator<Item = (Key, DeltaEntry)>,
) -> Vec<(Key, Change, Option<Vec<u8>>, BasePosition)> {
    let row = |entry: &DeltaEntry| entry.row().map(|row| row.as_bytes().to_vec());
    entries.map(|(key, entry)| (key, entry.change(), row(&entry), entry.position())).collect()
}

#[test]
fn adding_changes_gives_the_sum_of_both_whichever_is_large() {
    let (mut shared, mut met, mut removed) = (0, 0, 0);
    for seed in 0..2_000 {
        let mut dice = StdRng::seed_from_u64(seed);
        let (earlier_max, changes_max) = if dice.random() { (6, 120) } else { (60, 60) };
        let found = if dice.random() { Found::SomeInTheBase } else { Found::Nowhere };
        let draw = |earlier: &Entries, max: usize, dice: &mut StdRng| -> Entries {
            let keys =
                (0..dice.random_range(0..max)).map(|_| key(dice.random_range(0..200))).collect::<Vec<_>>();
            keys.into_iter().map(|key| (key.clone(), change_after(earlier.get(&key), found, dice))).collect()
        };
        let earlier = draw(&Entries::new(), earlier_max, &mut dice);
        let changes = draw(&earlier, changes_max, &mut dice);
        for positions in [Positions::Kept, Positions::Forgotten] {
            let mut expected = earlier.clone();
            for (key, change) in &changes {
                let change = if positions == Positions::Kept {
                    change.clone()
                } else {
                    change.clone().without_position()
                };
                met += u32::from(expected.contains_key(key));
                match change.after(expected.get(key)) {
                    Some(sum) => drop(expected.insert(key.clone(), sum)),
                    None => {
                        expected.remove(key);
                        removed += 1;
                    }
                }
            }
            let (mut delta, added) = (delta_of(&earlier), delta_of(&changes));
            let before = delta.clone();
            add(&mut delta, &added, positions);
            shared += u32::from(earlier.len() * SHARED_AT_FACTOR <= changes.len());
            let owned = |delta: &Delta| seen(delta.iter().map(|(key, entry)| (key.clone(), entry.clone())));
            assert_eq!(owned(&delta), seen(expected.into_iter()), "seed {seed}, {positions:?}");
            // Others hold both.
            assert_eq!(owned(&added), seen(changes.clone().into_iter()), "seed {seed}");
            assert_eq!(owned(&before), seen(earlier.clone().into_iter()), "seed {seed}");
        }
    }
    assert!(shared > 1_000 && met > 5_000 && removed > 200, "{shared} shared, {met} met, {removed} removed");
}
