// SPDX-License-Identifier: Apache-2.0
use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn inline_and_heap_keys_order_as_their_bytes(
        a in prop::collection::vec(0u8..3, 0..40),
        b in prop::collection::vec(0u8..3, 0..40),
    ) {
        prop_assert_eq!(a.cmp(&b), Key::from_slice(&a).cmp(&Key::from_slice(&b)));
    }

    #[test]
    fn after_prefix_is_the_end_of_the_prefix(prefix in prop::collection::vec(any::<u8>(), 1..8), tail in prop::collection::vec(any::<u8>(), 0..8)) {
        let mut long = prefix.clone();
        long.extend(tail);
        if let Some(end) = Key::after_prefix(&prefix) {
            prop_assert!(Key::from_slice(&long) < end);
        }
    }
}
