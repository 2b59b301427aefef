// SPDX-License-Identifier: Apache-2.0
//! Whether all trees of a world say the same.

use crate::rows::{Line, LineKey, OrderStatus};
use crate::world::{Orders, World};

/// The number of lines and a sum over what they are, which does not depend on their order.
type Digest = (u64, u64);

fn digest<'t>(lines: impl Iterator<Item = (&'t LineKey, &'t Line)>) -> Digest {
    lines.fold((0, 0), |(count, sum), (key, line)| {
        let words = [
            u64::from(key.order()) << 32 | u64::from(line.price),
            u64::from(line.part) << 32 | u64::from(line.supplier),
            u64::from(u16::from_le_bytes(line.ship.to_bytes())) << 8 | line.state.index() as u64,
        ];
        let mixed = words.iter().fold(key.order().into(), |mixed: u64, word| {
            (mixed ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        });
        (count + 1, sum.wrapping_add(mixed))
    })
}

/// The orders of several trees as one list, by key.
fn gathered<'t>(trees: impl Iterator<Item = &'t Orders>) -> Vec<u32> {
    let mut keys: Vec<u32> = trees.flat_map(|orders| orders.keys().copied()).collect();
    keys.sort_unstable();
    keys
}

impl World {
    /// Checks that every order and line is in each tree where it belongs, and says the same there.
    ///
    /// # Panics
    /// If it does not.
    pub(crate) fn check(&self) {
        let of_orders = digest(self.orders.values().flat_map(|(_, lines)| lines.iter()));
        let offers_of_parts = self.parts.values().flat_map(|(_, offers)| offers.values());
        assert_eq!(of_orders, digest(offers_of_parts.flat_map(|(_, lines)| lines.iter())), "lines of parts");
        let offers_of_suppliers = self.suppliers.values().flat_map(|(_, offers)| offers.values());
        assert_eq!(
            of_orders,
            digest(offers_of_suppliers.flat_map(|(_, lines)| lines.iter())),
            "of suppliers"
        );
        let shipped = self.orders.values().flat_map(|(_, lines)| lines.iter());
        let shipped = digest(shipped.filter(|(_, line)| line.ship.known()));
        assert_eq!(
            shipped,
            digest(self.by_ship_date.values().flat_map(|lines| lines.iter())),
            "by ship date"
        );

        let keys: Vec<u32> = self.orders.keys().copied().collect();
        assert_eq!(keys, gathered(self.customers.values().map(|(_, orders)| orders)), "orders of customers");
        assert_eq!(keys, gathered(self.by_order_date.values()), "orders by day");
        for (key, (order, lines)) in &self.orders {
            let (_, orders) = self.customers.get(&order.customer).expect("orders have customers");
            for copy in [orders.get(key), self.by_order_date.get_nested(&order.date, key)] {
                let (other, other_lines) = copy.expect("the lists of keys are the same");
                assert!(other == order && other_lines.ptr_eq(lines), "order {key} is the same everywhere");
            }
        }
        for key in self.open_orders.values() {
            let (order, _) = self.orders.get(key).expect("open orders exist");
            assert!(order.status == OrderStatus::Open, "order {key} waits to be shipped");
        }
    }

    /// One number for all that transactions change.
    pub(crate) fn fingerprint(&self) -> [u64; 4] {
        let (lines, sum) = digest(self.orders.values().flat_map(|(_, lines)| lines.iter()));
        let balances: i64 = self.customers.values().map(|(customer, _)| customer.balance).sum();
        let offers = self.suppliers.values().flat_map(|(_, offers)| offers.values());
        let available: i64 = offers.map(|(offer, _)| i64::from(offer.available)).sum();
        [lines, sum, balances as u64, available as u64]
    }
}
