// SPDX-License-Identifier: Apache-2.0
use super::*;

use std::collections::{BTreeMap, BTreeSet};

use crate::declaration::DimensionValues;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

fn layout(dimensions: &[(u64, u64)]) -> Result<BrickLayout, LayoutError> {
    let dimensions: Vec<Dimension> = dimensions
        .iter()
        .map(|(cardinality, range_size)| Dimension {
            name: "d".into(),
            values: DimensionValues::String,
            cardinality: *cardinality,
            range_size: *range_size,
        })
        .collect();
    BrickLayout::new(&dimensions.iter().collect::<Vec<_>>())
}

#[test]
fn figure_four_of_the_paper_has_three_bits_and_eight_bricks() {
    let layout = layout(&[(4, 2), (4, 1)]).unwrap();
    assert_eq!((layout.id_bits(), layout.bess_bytes()), (3, 1));

    let mut bricks: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    for region in 0..4 {
        for gender in 0..4 {
            bricks.entry(layout.brick(&[region, gender]).get()).or_default().push((region, gender));
        }
    }
    let expected: [(u64, [(u64, u64); 2]); 8] = [
        (0b000, [(0, 0), (1, 0)]),
        (0b001, [(0, 1), (1, 1)]),
        (0b010, [(0, 2), (1, 2)]),
        (0b011, [(0, 3), (1, 3)]),
        (0b100, [(2, 0), (3, 0)]),
        (0b101, [(2, 1), (3, 1)]),
        (0b110, [(2, 2), (3, 2)]),
        (0b111, [(2, 3), (3, 3)]),
    ];
    assert_eq!(bricks.len(), 8);
    for (id, members) in expected {
        assert_eq!(bricks[&id], members, "brick {id:03b}");
        let [region, gender] = layout.ordinals(BrickId::new(id)).try_into().unwrap();
        assert!(members.iter().all(|(r, g)| region.contains(r) && gender.contains(g)), "brick {id:03b}");
    }
}

#[test]
fn ordinals_come_back_from_brick_and_bess_whatever_the_layout() {
    let mut random = StdRng::seed_from_u64(7);
    for _ in 0..500 {
        let dimensions: Vec<(u64, u64)> = (0..random.random_range(1..5))
            .map(|_| (random.random_range(1..5_000), random.random_range(1..600)))
            .collect();
        let layout = layout(&dimensions).unwrap();
        for _ in 0..50 {
            let ordinals: Vec<u64> = dimensions.iter().map(|(c, _)| random.random_range(0..*c)).collect();
            let brick = layout.brick(&ordinals);
            let parts = layout.dimensions();
            let bess = parts.iter().zip(&ordinals).fold(0, |bess, (part, o)| bess | part.locate(*o).1);
            let back: Vec<u64> = parts.iter().map(|part| part.first(brick) + part.offset(bess)).collect();
            assert_eq!(back, ordinals);
            assert!(
                layout.ordinals(brick).iter().zip(&ordinals).all(|(range, ordinal)| range.contains(ordinal))
            );
            assert!(layout.bess_bytes() == 8 || bess < 1 << (8 * layout.bess_bytes()));
        }
    }
}

#[test]
fn different_ranges_are_different_bricks() {
    let layout = layout(&[(10, 3), (7, 2), (2, 1)]).unwrap();
    let ids: BTreeSet<BrickId> = (0..4)
        .flat_map(|a| (0..4).flat_map(move |b| (0..2).map(move |c| [a * 3, b * 2, c])))
        .map(|ordinals| layout.brick(&ordinals))
        .collect();
    assert_eq!(ids.len(), 4 * 4 * 2);
}

#[test]
fn sixty_four_bits_are_enough_and_sixty_five_are_refused() {
    assert_eq!(layout(&[(1 << 32, 1), (1 << 32, 1)]).unwrap().id_bits(), 64);
    assert_eq!(layout(&[(1 << 32, 1), (1 << 33, 1)]).unwrap_err(), LayoutError::IdBits { bits: 65 });
    assert_eq!(layout(&[(1 << 63, 1 << 63), (2, 2)]).unwrap().bess_bytes(), 8);
    assert_eq!(layout(&[(1 << 63, 1 << 63), (3, 3)]).unwrap_err(), LayoutError::OffsetBits { bits: 65 });
    assert_eq!(layout(&[(4, 0)]).unwrap_err(), LayoutError::Zero { column: "d".into() });
    let whole = layout(&[(u64::MAX, u64::MAX)]).unwrap();
    assert_eq!(whole.ordinals(whole.brick(&[u64::MAX - 1])), [0..=u64::MAX - 1]);
}

#[test]
fn dimensions_without_offsets_take_no_bytes() {
    assert_eq!(layout(&[(16, 1), (4, 1)]).unwrap().bess_bytes(), 0);
    assert_eq!(layout(&[(1 << 20, 1 << 9), (4, 1)]).unwrap().bess_bytes(), 2);
    assert_eq!(layout(&[(1 << 20, 1 << 17)]).unwrap().bess_bytes(), 4);
}
