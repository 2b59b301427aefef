// SPDX-License-Identifier: Apache-2.0
//! What the transactions do to all trees they concern (P-Trees paper, Table 1 and Figure 5).
//!
//! Each update copies paths through an outer tree and goes on with paths in inner trees. What a transaction changes in
//! one tree is one batch, so that no node is copied twice.
//!
//! New lines have no day of shipping or receipt. A Delivery ships them; receipt is not part of the benchmark, so the
//! tree by receipt date does not change.

use std::hint::black_box;

use coeval_ptree::{Fate, Grain, NestedBatch, PTree, group_batch};

use crate::date::Date;
use crate::rows::{Handling, Line, LineKey, LineState, Order, OrderStatus};
use crate::transactions::{NewOrder, Transaction};
use crate::world::{OrderLines, World};

/// A line by its part, and there by its supplier and its key.
type LineOfPart = ((u32, (u32, LineKey)), Line);

impl World {
    /// Makes the world after a transaction out of the one before. Snapshots taken before are as they were.
    pub(crate) fn apply(&mut self, transaction: &Transaction) {
        match transaction {
            Transaction::NewOrder(order) => self.order(order),
            Transaction::Payment { customer, amount } => {
                let paid = self.customers.modify(customer, |(row, _)| row.balance -= i64::from(*amount));
                paid.expect("customers are drawn from those that exist");
            }
            Transaction::Delivery { orders, today } => self.deliver(usize::from(*orders), *today),
        }
    }

    fn order(&mut self, order: &NewOrder) {
        let key = self.orders.last().map_or(1, |(last, _)| last + 1);
        let lines: Vec<(LineKey, Line)> = (1..)
            .zip(&order.lines)
            .map(|(number, line)| {
                let part = self.fixed.part(line.part);
                let row = Line {
                    part: line.part,
                    supplier: line.supplier,
                    price: part.price * u32::from(line.quantity),
                    comment: line.comment,
                    ship: Date::NONE,
                    commit: order.today.plus(u16::from(line.promised)),
                    receipt: Date::NONE,
                    quantity: line.quantity,
                    discount: line.discount,
                    tax: line.tax,
                    state: LineState::OPEN,
                    handling: Handling::new(line.instruction, line.mode),
                };
                (LineKey::new(key, number), row)
            })
            .collect();
        let with_tax = |line: &Line| line.revenue() * (100 + i64::from(line.tax)) / 10_000;
        let price: i64 = lines.iter().map(|(_, line)| with_tax(line)).sum();
        let row = Order {
            customer: order.customer,
            price: u32::try_from(price).expect("seven lines are less than forty millions"),
            comment: order.comment,
            date: order.today,
            clerk: order.clerk,
            priority: order.priority,
            status: OrderStatus::Open,
            ship_priority: 0,
        };
        let entry = (row, PTree::from_sorted_iter(lines.iter().copied()));
        self.orders.insert(key, entry.clone());
        let customer =
            self.customers.modify(&order.customer, |(_, orders)| orders.insert(key, entry.clone()));
        customer.expect("customers are drawn from those that exist");
        self.by_order_date.insert_nested(order.today, key, entry);
        self.put_lines(&lines, |line| i32::from(line.quantity));
        let turn = self.open_orders.last().map_or(0, |(last, _)| last + 1);
        self.open_orders.insert(turn, key);
    }

    /// Ships the oldest open orders, at most so many of them.
    fn deliver(&mut self, count: usize, today: Date) {
        let keys: Vec<u32> =
            (0..count).map_while(|_| self.open_orders.pop_first()).map(|(_, key)| key).collect();
        let ship = |entry: Option<&(Order, OrderLines)>| {
            let (row, lines) = entry.expect("open orders exist");
            let shipped = |line: &Line| Line { ship: today, state: line.state.shipped(), ..*line };
            let lines = PTree::from_sorted_iter(lines.iter().map(|(key, line)| (*key, shipped(line))));
            (Order { status: OrderStatus::Filled, ..*row }, lines)
        };
        let entries: Vec<(Order, OrderLines)> =
            self.orders.multi_find::<u32, _>(&keys).into_iter().map(ship).collect();
        let lines: Vec<(LineKey, Line)> =
            entries.iter().flat_map(|(_, lines)| lines.iter()).map(|(key, line)| (*key, *line)).collect();
        self.put_lines(&lines, |_| 0);

        let by_customer = grouped(&keys, &entries, |row| row.customer);
        self.customers.multi_modify(by_customer, Grain::UPDATE, |_, (customer, orders), entries| {
            customer.balance += entries.iter().map(|(_, (row, _))| i64::from(row.price)).sum::<i64>();
            orders.multi_insert(entries, |_, _, new| new);
            Fate::Keep
        });
        self.by_order_date.multi_insert_nested(grouped(&keys, &entries, |row| row.date), |_, _, new| new);
        self.orders.multi_insert(keys.into_iter().zip(entries).collect(), |_, _, new| new);
        if !lines.is_empty() {
            self.by_ship_date.multi_insert_nested(vec![(today, lines)], |_, _, new| new);
        }
    }

    /// Puts lines below their parts and their suppliers, which share the trees of their lines, and takes what was
    /// `ordered` off what is available.
    fn put_lines(&mut self, lines: &[(LineKey, Line)], ordered: impl Fn(&Line) -> i32 + Sync) {
        let mut by_part: Vec<LineOfPart> =
            lines.iter().map(|(key, line)| ((line.part, (line.supplier, *key)), *line)).collect();
        by_part.sort_unstable_by_key(|(key, _)| *key);
        self.warm(&by_part);
        self.parts.multi_modify(group_batch(by_part), Grain::UPDATE, |part, (_, offers), lines| {
            for ((supplier, key), line) in lines {
                let changed = offers.modify(&(*part, supplier), |(offer, lines)| {
                    offer.available -= ordered(&line);
                    lines.insert(key, line);
                });
                changed.expect("lines are of a part that its supplier has");
            }
            Fate::Keep
        });
        let mut changed: Vec<(u32, (u32, u32))> =
            lines.iter().map(|(_, line)| (line.supplier, (line.part, line.supplier))).collect();
        changed.sort_unstable();
        changed.dedup();
        let entry = |offer: &(u32, u32)| {
            let (_, offers) = self.parts.get(&offer.0).expect("changed above");
            offers.get(offer).expect("changed above").clone()
        };
        let by_supplier = changed.into_iter().map(|key| (key, entry(&key.1))).collect();
        self.suppliers.multi_modify(group_batch(by_supplier), Grain::UPDATE, |_, (_, offers), entries| {
            offers.multi_insert(entries, |_, _, new| new);
            Fate::Keep
        });
    }

    /// Looks at what [`put_lines`](Self::put_lines) is going to copy, so that the cache misses of all lines overlap.
    fn warm(&self, lines: &[LineOfPart]) {
        let parts: Vec<u32> = lines.iter().map(|((part, _), _)| *part).collect();
        let suppliers: Vec<u32> = lines.iter().map(|((_, (supplier, _)), _)| *supplier).collect();
        let parts = self.parts.multi_find::<u32, _>(&parts);
        let suppliers = self.suppliers.multi_find::<u32, _>(&suppliers);
        let mut seen = 0;
        for (((part, (supplier, _)), _), (of_part, of_supplier)) in
            lines.iter().zip(parts.iter().zip(&suppliers))
        {
            let offer = (*part, *supplier);
            seen += of_part.and_then(|(_, offers)| offers.get(&offer)).map_or(0, |(_, lines)| lines.len());
            seen += of_supplier.map_or(0, |(_, offers)| offers.rank(&offer));
        }
        black_box(seen);
    }
}

/// Orders with their keys in groups, for a batch.
fn grouped<G: Ord + Copy>(
    keys: &[u32],
    entries: &[(Order, OrderLines)],
    group: impl Fn(&Order) -> G,
) -> NestedBatch<G, u32, (Order, OrderLines)> {
    let mut batch: Vec<((G, u32), (Order, OrderLines))> =
        keys.iter().zip(entries).map(|(key, entry)| ((group(&entry.0), *key), entry.clone())).collect();
    batch.sort_unstable_by_key(|(key, _)| *key);
    group_batch(batch)
}
