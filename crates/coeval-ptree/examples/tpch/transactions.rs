// SPDX-License-Identifier: Apache-2.0
//! The transactions of TPC-HC: 49 % New-Order, 47 % Payment, 4 % Delivery (P-Trees paper, section 8.1).
//!
//! A transaction holds all that it depends on besides the world, so that the log can hold transactions.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::date::Date;
use crate::text::Text;
use crate::world::World;

/// One transaction, with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Transaction {
    /// A customer orders.
    NewOrder(NewOrder),
    /// A customer pays so many hundredths.
    Payment { customer: u32, amount: u32 },
    /// The oldest open orders are shipped, so many of them.
    Delivery { orders: u8, today: Date },
}

/// What a customer orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewOrder {
    pub(crate) customer: u32,
    pub(crate) today: Date,
    pub(crate) clerk: u16,
    pub(crate) priority: u8,
    pub(crate) comment: Text,
    /// From one to seven.
    pub(crate) lines: Vec<NewLine>,
}

/// One line of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewLine {
    pub(crate) part: u32,
    pub(crate) supplier: u32,
    pub(crate) quantity: u8,
    pub(crate) discount: u8,
    pub(crate) tax: u8,
    pub(crate) instruction: u8,
    pub(crate) mode: u8,
    /// Days until it is promised to be there.
    pub(crate) promised: u8,
    pub(crate) comment: Text,
}

/// How many kinds of transactions there are.
pub(crate) const KINDS: usize = 3;

impl Transaction {
    /// Its kind: New-Order, Payment, Delivery.
    pub(crate) fn kind(&self) -> usize {
        match self {
            Transaction::NewOrder(_) => 0,
            Transaction::Payment { .. } => 1,
            Transaction::Delivery { .. } => 2,
        }
    }

    /// Appends the transaction to a log record.
    pub(crate) fn encode(&self, record: &mut Vec<u8>) {
        match self {
            Transaction::NewOrder(order) => {
                record.push(0);
                record.extend(order.customer.to_le_bytes());
                record.extend(order.today.to_bytes());
                record.extend(order.clerk.to_le_bytes());
                record.extend([order.priority, order.lines.len() as u8]);
                record.extend(order.comment.to_bytes());
                for line in &order.lines {
                    record.extend(line.part.to_le_bytes());
                    record.extend(line.supplier.to_le_bytes());
                    record.extend([line.quantity, line.discount, line.tax]);
                    record.extend([line.instruction, line.mode, line.promised]);
                    record.extend(line.comment.to_bytes());
                }
            }
            Transaction::Payment { customer, amount } => {
                record.push(1);
                record.extend(customer.to_le_bytes());
                record.extend(amount.to_le_bytes());
            }
            Transaction::Delivery { orders, today } => {
                record.extend([2, *orders]);
                record.extend(today.to_bytes());
            }
        }
    }

    /// Takes the next transaction off a log; none at its end, or where it was cut.
    pub(crate) fn decode(log: &mut &[u8]) -> Option<Self> {
        match byte(log)? {
            0 => {
                let (customer, today) = (word(log)?, Date::from_bytes(take(log)?));
                let (clerk, priority, count) = (u16::from_le_bytes(take(log)?), byte(log)?, byte(log)?);
                let comment = Text::from_bytes(take(log)?);
                let lines = (0..count).map(|_| {
                    Some(NewLine {
                        part: word(log)?,
                        supplier: word(log)?,
                        quantity: byte(log)?,
                        discount: byte(log)?,
                        tax: byte(log)?,
                        instruction: byte(log)?,
                        mode: byte(log)?,
                        promised: byte(log)?,
                        comment: Text::from_bytes(take(log)?),
                    })
                });
                let lines = lines.collect::<Option<_>>()?;
                Some(Transaction::NewOrder(NewOrder { customer, today, clerk, priority, comment, lines }))
            }
            1 => Some(Transaction::Payment { customer: word(log)?, amount: word(log)? }),
            2 => Some(Transaction::Delivery { orders: byte(log)?, today: Date::from_bytes(take(log)?) }),
            other => panic!("{other} begins no record of this program"),
        }
    }
}

fn take<const N: usize>(log: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = log.split_first_chunk()?;
    *log = rest;
    Some(*taken)
}

fn byte(log: &mut &[u8]) -> Option<u8> {
    take(log).map(|[byte]| byte)
}

fn word(log: &mut &[u8]) -> Option<u32> {
    take(log).map(u32::from_le_bytes)
}

/// Draws transactions.
#[derive(Debug)]
pub(crate) struct Source {
    random: StdRng,
    customers: u32,
    parts: u32,
    /// The four suppliers of each part, from part 1.
    suppliers: Vec<u32>,
    /// Comments that orders and lines have already; the specification draws all of them from one text, too.
    comments: Vec<(Text, Text)>,
    /// The day after the last one of the load.
    first_day: Date,
    orders: usize,
    orders_per_day: usize,
}

impl Source {
    /// Transactions for this world; the same ones for the same seed.
    pub(crate) fn new(world: &World, seed: u64) -> Self {
        let suppliers: Vec<u32> = world
            .parts
            .values()
            .flat_map(|(_, offers)| offers.keys().map(|(_, supplier)| *supplier))
            .collect();
        assert_eq!(suppliers.len(), 4 * world.parts.len(), "four suppliers of each part");
        let orders = world.orders.values().take(10_000);
        let comments = orders.filter_map(|(order, lines)| Some((order.comment, lines.first()?.1.comment)));
        let (last_day, _) = world.by_order_date.last().expect("there are orders");
        Source {
            random: StdRng::seed_from_u64(seed),
            customers: world.customers.len() as u32,
            parts: world.parts.len() as u32,
            suppliers,
            comments: comments.collect(),
            first_day: last_day.plus(1),
            orders: 0,
            orders_per_day: world.orders.len() / world.by_order_date.len(),
        }
    }

    /// The next transaction.
    pub(crate) fn draw(&mut self) -> Transaction {
        match self.random.random_range(0..100) {
            0..49 => self.new_order(),
            49..96 => Transaction::Payment {
                customer: self.random.random_range(1..=self.customers),
                amount: self.random.random_range(100..=500_000),
            },
            _ => Transaction::Delivery { orders: self.random.random_range(1..=10), today: self.today() },
        }
    }

    /// A New-Order, and no other.
    pub(crate) fn new_order(&mut self) -> Transaction {
        let count = self.random.random_range(1..=7);
        let lines = (0..count).map(|_| self.line()).collect();
        let (comment, _) = self.comment();
        self.orders += 1;
        Transaction::NewOrder(NewOrder {
            customer: self.random.random_range(1..=self.customers),
            today: self.today(),
            clerk: self.random.random_range(1..=1_000),
            priority: self.random.random_range(0..5),
            comment,
            lines,
        })
    }

    fn line(&mut self) -> NewLine {
        let part = self.random.random_range(1..=self.parts);
        let (_, comment) = self.comment();
        let offer = 4 * (part as usize - 1) + self.random.random_range(0..4);
        NewLine {
            part,
            supplier: self.suppliers[offer],
            quantity: self.random.random_range(1..=50),
            discount: self.random.random_range(0..=10),
            tax: self.random.random_range(0..=8),
            instruction: self.random.random_range(0..4),
            mode: self.random.random_range(0..7),
            promised: self.random.random_range(30..=90),
            comment,
        }
    }

    fn comment(&mut self) -> (Text, Text) {
        let at = self.random.random_range(0..self.comments.len());
        self.comments[at]
    }

    fn today(&self) -> Date {
        self.first_day.plus((self.orders / self.orders_per_day) as u16)
    }
}
