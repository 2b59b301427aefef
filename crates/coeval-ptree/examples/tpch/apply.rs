// SPDX-License-Identifier: Apache-2.0
//! What the transactions do to all trees they concern (P-Trees paper, Table 1 and Figure 5).
//!
//! Each update copies a path through an outer tree and goes on with one in the inner tree. Within a transaction the
//! second update of a tree finds what the first one copied held by nobody else, and changes it in place.
//!
//! New lines have no day of shipping or receipt. A Delivery ships them; receipt is not part of the benchmark, so the
//! tree by receipt date does not change.

use coeval_ptree::PTree;

use crate::date::Date;
use crate::rows::{Handling, Line, LineKey, LineState, Order, OrderStatus};
use crate::transactions::{NewOrder, Transaction};
use crate::world::{OrderLines, World};

impl World {
    /// Makes the world after a transaction out of the one before. Snapshots taken before are as they were.
    pub(crate) fn apply(&mut self, transaction: &Transaction) {
        match transaction {
            Transaction::NewOrder(order) => self.order(order),
            Transaction::Payment { customer, amount } => {
                let paid = self.customers.modify(customer, |(row, _)| row.balance -= i64::from(*amount));
                paid.expect("customers are drawn from those that exist");
            }
            Transaction::Delivery { orders, today } => {
                for _ in 0..*orders {
                    let Some((_, key)) = self.open_orders.pop_first() else { return };
                    self.ship(key, *today);
                }
            }
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
        for (key, line) in lines {
            self.put_line(key, line, i32::from(line.quantity));
        }
        let turn = self.open_orders.last().map_or(0, |(last, _)| last + 1);
        self.open_orders.insert(turn, key);
    }

    fn ship(&mut self, key: u32, today: Date) {
        let (mut row, lines) = self.orders.get(&key).expect("open orders exist").clone();
        let lines: OrderLines = PTree::from_sorted_iter(
            lines
                .iter()
                .map(|(key, line)| (*key, Line { ship: today, state: line.state.shipped(), ..*line })),
        );
        row.status = OrderStatus::Filled;
        for (key, line) in &lines {
            self.put_line(*key, *line, 0);
            self.by_ship_date.insert_nested(today, *key, *line);
        }
        let entry = (row, lines);
        let customer = self.customers.modify(&row.customer, |(customer, orders)| {
            customer.balance += i64::from(row.price);
            orders.insert(key, entry.clone())
        });
        customer.expect("orders have customers");
        self.by_order_date.insert_nested(row.date, key, entry.clone());
        self.orders.insert(key, entry);
    }

    /// Puts a line below its part and its supplier, which share the tree of their lines, and takes what was ordered off
    /// what is available.
    fn put_line(&mut self, key: LineKey, line: Line, ordered: i32) {
        let offer = (line.part, line.supplier);
        let changed = self.parts.modify(&line.part, |(_, offers)| {
            offers.modify(&offer, |entry| {
                entry.0.available -= ordered;
                entry.1.insert(key, line);
                entry.clone()
            })
        });
        let entry = changed.flatten().expect("lines are of a part that its supplier has");
        let supplier = self.suppliers.modify(&line.supplier, |(_, offers)| offers.insert(offer, entry));
        supplier.flatten().expect("suppliers have the parts that have them");
    }
}
