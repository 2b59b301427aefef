// SPDX-License-Identifier: Apache-2.0
//! What a terminal asks for: the inputs of the five transactions (clauses 2.4.1 to 2.8.1) in the
//! specification's mix.

use super::choice::{Choice, NuRandConstants};
use super::population::{DISTRICTS, Sizes};

/// The five transaction types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Enters an order.
    NewOrder,
    /// Books a payment.
    Payment,
    /// Reads a customer's last order.
    OrderStatus,
    /// Delivers the oldest order of each district.
    Delivery,
    /// Counts items that run low.
    StockLevel,
}

impl Kind {
    /// All types, in the order of the specification.
    pub(crate) const ALL: [Self; 5] =
        [Self::NewOrder, Self::Payment, Self::OrderStatus, Self::Delivery, Self::StockLevel];

    /// The name in reports.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::NewOrder => "new_order",
            Self::Payment => "payment",
            Self::OrderStatus => "order_status",
            Self::Delivery => "delivery",
            Self::StockLevel => "stock_level",
        }
    }

    /// How many cards of a deck of [`DECK_CARDS`] are of this type.
    #[must_use]
    pub(crate) const fn cards(self) -> usize {
        match self {
            Self::NewOrder => 45,
            Self::Payment => 43,
            Self::OrderStatus | Self::Delivery | Self::StockLevel => 4,
        }
    }
}

/// Cards of one deck: after each deck the mix is exact (clause 5.2.4.2).
pub(super) const DECK_CARDS: usize = 100;
const _: () = {
    let mut cards = 0;
    let mut kind = 0;
    while kind < Kind::ALL.len() {
        cards += Kind::ALL[kind].cards();
        kind += 1;
    }
    assert!(cards == DECK_CARDS, "the mix adds up to 100 %");
};

/// Which customer is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CustomerBy {
    Number(i32),
    LastName(String),
}

/// One ordered item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OrderItem {
    pub(crate) item: i32,
    pub(crate) supply_warehouse: i32,
    pub(crate) quantity: i32,
}

/// The input of NewOrder. One in a hundred names an item that does not exist and must roll back.
#[derive(Clone, Debug)]
pub(crate) struct NewOrder {
    pub(crate) warehouse: i32,
    pub(crate) district: i32,
    pub(crate) customer: i32,
    pub(crate) items: Vec<OrderItem>,
}

impl NewOrder {
    /// Whether all items come from the home warehouse.
    pub(crate) fn is_all_local(&self) -> bool {
        self.items.iter().all(|item| item.supply_warehouse == self.warehouse)
    }
}

/// The input of Payment.
#[derive(Clone, Debug)]
pub(crate) struct Payment {
    pub(crate) warehouse: i32,
    pub(crate) district: i32,
    pub(crate) customer_warehouse: i32,
    pub(crate) customer_district: i32,
    pub(crate) customer: CustomerBy,
    /// In cents.
    pub(crate) amount: i64,
}

/// The input of OrderStatus.
#[derive(Clone, Debug)]
pub(crate) struct OrderStatus {
    pub(crate) warehouse: i32,
    pub(crate) district: i32,
    pub(crate) customer: CustomerBy,
}

/// The input of Delivery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    pub(crate) warehouse: i32,
    pub(crate) carrier: i32,
}

/// The input of StockLevel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StockLevel {
    pub(crate) warehouse: i32,
    pub(crate) district: i32,
    pub(crate) threshold: i32,
}

/// One transaction to run.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    NewOrder(NewOrder),
    Payment(Payment),
    OrderStatus(OrderStatus),
    Delivery(Delivery),
    StockLevel(StockLevel),
}

impl Input {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::NewOrder(_) => Kind::NewOrder,
            Self::Payment(_) => Kind::Payment,
            Self::OrderStatus(_) => Kind::OrderStatus,
            Self::Delivery(_) => Kind::Delivery,
            Self::StockLevel(_) => Kind::StockLevel,
        }
    }
}

/// A terminal: it belongs to a warehouse and, for StockLevel, to a district.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Terminal {
    warehouse: i32,
    district: i32,
}

/// The terminals that one thread plays, and the deck it draws from.
///
/// There are ten terminals for each warehouse, one for each district; thread `t` of `n` plays those whose number
/// leaves the remainder `t` modulo `n`, so that every thread works for all warehouses and threads meet on the
/// same rows as real terminals would.
pub(crate) struct Terminals {
    choice: Choice,
    sizes: Sizes,
    warehouses: i32,
    terminals: Vec<Terminal>,
    deck: Vec<Kind>,
    /// The warehouses that 99 in 100 transactions keep to; all if there are none.
    hot: i32,
}

impl Terminals {
    /// Those of thread `thread` of `threads`.
    pub(crate) fn new(sizes: Sizes, warehouses: i32, seed: u64, thread: usize, threads: usize) -> Self {
        let all: Vec<Terminal> = (1..=warehouses)
            .flat_map(|warehouse| (1..=DISTRICTS).map(move |district| Terminal { warehouse, district }))
            .collect();
        let mut terminals: Vec<Terminal> = all.iter().copied().skip(thread).step_by(threads).collect();
        if terminals.is_empty() {
            // More threads than terminals: some terminals are played by two threads.
            terminals.push(all[thread % all.len()]);
        }
        let choice = Choice::new(seed, RUN_STREAM + thread as u64, NuRandConstants::new(seed));
        Self { choice, sizes, warehouses, terminals, deck: Vec::new(), hot: 0 }
    }

    /// The same, but 99 in 100 transactions keep to the first so many warehouses (TiQuE's Figure 8); all of them if 0.
    pub(crate) fn kept_to(mut self, hot: i32) -> Self {
        self.hot = hot.min(self.warehouses);
        self
    }

    /// What the next terminal asks for.
    pub(crate) fn next(&mut self) -> Input {
        let place = self.choice.uniform(0, self.terminals.len() as i32 - 1) as usize;
        let Terminal { mut warehouse, district } = self.terminals[place];
        if self.hot > 0 && self.choice.happens(99) {
            warehouse = self.choice.uniform(1, self.hot);
        }
        match self.draw() {
            Kind::NewOrder => Input::NewOrder(self.new_order(warehouse)),
            Kind::Payment => Input::Payment(self.payment(warehouse)),
            Kind::OrderStatus => {
                let district = self.district();
                Input::OrderStatus(OrderStatus { warehouse, district, customer: self.customer() })
            }
            Kind::Delivery => Input::Delivery(Delivery { warehouse, carrier: self.choice.uniform(1, 10) }),
            Kind::StockLevel => {
                let threshold = self.choice.uniform(10, 20);
                Input::StockLevel(StockLevel { warehouse, district, threshold })
            }
        }
    }

    fn draw(&mut self) -> Kind {
        if self.deck.is_empty() {
            for kind in Kind::ALL {
                self.deck.extend(std::iter::repeat_n(kind, kind.cards()));
            }
            self.choice.shuffle(&mut self.deck);
        }
        self.deck.pop().expect("a deck was just dealt")
    }

    fn district(&mut self) -> i32 {
        self.choice.uniform(1, DISTRICTS)
    }

    fn other_warehouse(&mut self, home: i32) -> i32 {
        let other = self.choice.uniform(1, self.warehouses - 1);
        if other < home { other } else { other + 1 }
    }

    fn customer(&mut self) -> CustomerBy {
        if self.choice.happens(60) {
            CustomerBy::LastName(super::choice::last_name(self.choice.last_name(self.sizes.last_names)))
        } else {
            CustomerBy::Number(self.choice.customer(self.sizes.customers))
        }
    }

    fn new_order(&mut self, warehouse: i32) -> NewOrder {
        let district = self.district();
        let customer = self.choice.customer(self.sizes.customers);
        let count = self.choice.uniform(5, 15);
        let rolls_back = self.choice.happens(1);
        let mut items: Vec<OrderItem> = (0..count)
            .map(|_| {
                let remote = self.warehouses > 1 && self.choice.happens(1);
                OrderItem {
                    item: self.choice.item(self.sizes.items),
                    supply_warehouse: if remote { self.other_warehouse(warehouse) } else { warehouse },
                    quantity: self.choice.uniform(1, 10),
                }
            })
            .collect();
        if rolls_back {
            items.last_mut().expect("an order has at least five items").item = self.sizes.items + 1;
        }
        NewOrder { warehouse, district, customer, items }
    }

    fn payment(&mut self, warehouse: i32) -> Payment {
        let district = self.district();
        let remote = self.choice.happens(15) && self.warehouses > 1;
        let (customer_warehouse, customer_district) =
            if remote { (self.other_warehouse(warehouse), self.district()) } else { (warehouse, district) };
        Payment {
            warehouse,
            district,
            customer_warehouse,
            customer_district,
            customer: self.customer(),
            amount: i64::from(self.choice.uniform(100, 500_000)),
        }
    }
}

/// Random streams of runs begin here, above those of the population.
const RUN_STREAM: u64 = 1 << 48;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Population;

    const DRAWS: usize = 100_000;

    fn inputs(warehouses: i32, threads: usize) -> Vec<Input> {
        let mut terminals = Terminals::new(Sizes::new(Population::Full), warehouses, 1, 0, threads);
        (0..DRAWS).map(|_| terminals.next()).collect()
    }

    fn share(count: usize, of: usize) -> f64 {
        count as f64 / of as f64 * 100.0
    }

    #[test]
    fn the_mix_is_exact_after_each_deck() {
        let inputs = inputs(4, 2);
        for kind in Kind::ALL {
            let count = inputs.iter().filter(|input| input.kind() == kind).count();
            assert_eq!(count, kind.cards() * DRAWS / DECK_CARDS, "{}", kind.name());
        }
    }

    #[test]
    fn one_new_order_in_a_hundred_names_an_unused_item_last() {
        let orders: Vec<NewOrder> = inputs(4, 2)
            .into_iter()
            .filter_map(|input| if let Input::NewOrder(o) = input { Some(o) } else { None })
            .collect();
        let unused = |order: &NewOrder| order.items.last().unwrap().item == 100_001;
        let rolled_back = orders.iter().filter(|order| unused(order)).count();
        assert!((share(rolled_back, orders.len()) - 1.0).abs() < 0.2);
        assert!(
            orders
                .iter()
                .all(|order| order.items[..order.items.len() - 1].iter().all(|item| item.item <= 100_000))
        );
        let lines: usize = orders.iter().map(|order| order.items.len()).sum();
        let remote: usize = orders
            .iter()
            .map(|order| order.items.iter().filter(|item| item.supply_warehouse != order.warehouse).count())
            .sum();
        assert!((share(remote, lines) - 1.0).abs() < 0.1);
        assert!((lines as f64 / orders.len() as f64 - 10.0).abs() < 0.1);
    }

    #[test]
    fn payments_are_remote_and_by_last_name_at_the_asked_rates() {
        let payments: Vec<Payment> = inputs(4, 2)
            .into_iter()
            .filter_map(|input| if let Input::Payment(p) = input { Some(p) } else { None })
            .collect();
        let remote =
            payments.iter().filter(|payment| payment.customer_warehouse != payment.warehouse).count();
        let by_name =
            payments.iter().filter(|payment| matches!(payment.customer, CustomerBy::LastName(_))).count();
        assert!((share(remote, payments.len()) - 15.0).abs() < 1.0);
        assert!((share(by_name, payments.len()) - 60.0).abs() < 1.0);
        assert!(payments.iter().all(|payment| (1..=4).contains(&payment.customer_warehouse)));
    }

    #[test]
    fn a_single_warehouse_has_nothing_remote() {
        for input in inputs(1, 1) {
            match input {
                Input::NewOrder(order) => assert!(order.is_all_local()),
                Input::Payment(payment) => assert_eq!(payment.customer_warehouse, 1),
                Input::OrderStatus(_) | Input::Delivery(_) | Input::StockLevel(_) => {}
            }
        }
    }

    #[test]
    fn threads_share_the_terminals_and_each_has_at_least_one() {
        let sizes = Sizes::new(Population::Full);
        let of = |thread, threads| Terminals::new(sizes, 4, 1, thread, threads).terminals;
        let both: Vec<Terminal> = (0..2).flat_map(|thread| of(thread, 2)).collect();
        assert_eq!(both.len(), 40);
        assert!(
            (0..2)
                .all(|thread| (1..=4).all(|w| of(thread, 2).iter().any(|terminal| terminal.warehouse == w)))
        );
        assert!((0..64).all(|thread| of(thread, 64).len() == 1));
    }
}
