// SPDX-License-Identifier: Apache-2.0
//! An order book: prices with queues of orders, the quantity of any price range in logarithmic time, and snapshots for
//! those who only look.
//!
//! ```text
//! cargo run --release -p coeval-ptree --example order_book
//! ```

use coeval_ptree::{PTree, Summary};

/// The orders at one price in the order of their arrival; knows their quantity.
type Queue = PTree<u64, u64, coeval_ptree::Sum<u64>>;

/// The quantity on offer in a range of prices.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Quantity(u64);

impl<K> Summary<K, Queue> for Quantity {
    fn empty() -> Self {
        Quantity(0)
    }

    fn of(_price: &K, queue: &Queue) -> Self {
        Quantity(queue.summary().0)
    }

    fn combine(&self, later: &Self) -> Self {
        Quantity(self.0 + later.0)
    }

    fn agrees_with(&self, other: &Self) -> bool {
        self == other
    }
}

/// One side of the book, best price first: offers to sell.
#[derive(Clone, Default)]
struct Asks {
    levels: PTree<u32, Queue, Quantity>,
}

/// A part of an order that was filled.
#[derive(Debug, PartialEq)]
struct Fill {
    price: u32,
    order: u64,
    quantity: u64,
}

impl Asks {
    fn place(&mut self, price: u32, order: u64, quantity: u64) {
        self.levels.insert_nested(price, order, quantity);
    }

    fn cancel(&mut self, price: u32, order: u64) -> Option<u64> {
        self.levels.remove_nested(&price, &order)
    }

    /// The price up to which one has to go for `quantity`, without filling anything. `O(log n)`.
    fn price_for(&self, quantity: u64) -> Option<u32> {
        self.levels.select_by(|offered| offered.0 < quantity).map(|(_, price, _)| *price)
    }

    /// Buys up to `quantity` at up to `limit`, oldest orders of the best prices first.
    fn buy(&mut self, limit: u32, mut quantity: u64) -> Vec<Fill> {
        let mut fills = Vec::new();
        while quantity > 0
            && let Some((&price, queue)) = self.levels.first()
            && price <= limit
        {
            let (&order, &offered) = queue.first().expect("a level has orders");
            let filled = offered.min(quantity);
            quantity -= filled;
            fills.push(Fill { price, order, quantity: filled });
            if filled == offered {
                self.cancel(price, order);
            } else {
                self.levels.insert_nested(price, order, offered - filled);
            }
        }
        fills
    }
}

fn main() {
    let mut asks = Asks::default();
    for order in 0..100_000u64 {
        asks.place(10_000 + (order * 37 % 500) as u32, order, 1 + order % 9);
    }
    let snapshot = asks.clone();
    println!("{} offered up to a price of 10,009", asks.levels.aggregate(..10_010).0);
    println!("5,000 cost up to {} each", asks.price_for(5_000).expect("enough is offered"));

    let fills = asks.buy(10_004, 6_000);
    let filled: u64 = fills.iter().map(|fill| fill.quantity).sum();
    println!("bought {filled} in {} fills, the last {:?}", fills.len(), fills.last());
    assert_eq!(filled + asks.levels.summary().0, snapshot.levels.summary().0);
    assert_eq!(asks.cancel(10_499, 1), None);
    asks.levels.check_invariants().expect("summaries follow every fill");
    assert_eq!(snapshot.levels.aggregate(..10_000), Quantity(0));
}
