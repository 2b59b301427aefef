// SPDX-License-Identifier: Apache-2.0
//! Queries that look at all orders with their lines (18, 21).

use std::cmp::Reverse;

use coeval_ptree::Grain;

use crate::answers::{Answer, Value};
use crate::date::Date;
use crate::queries::tables::{add_all, append};
use crate::rows::{Customer, OrderStatus};
use crate::world::{Fixed, World};

/// What query 18 finds of an order: price, day, key, customer, quantity.
pub(crate) type Volume = (Reverse<u32>, Date, u32, u32, i64);

/// For an order's lines.
const LINES: Grain = Grain::for_work(20);

/// No supplier's key: they begin with 1.
const NOBODY: u32 = 0;

/// Query 18.
pub(super) fn large_volume_customers(world: &World) -> Answer<'_> {
    let found = world.orders.scan(LINES).semi_map_reduce(
        Vec::new(),
        |mut found, key, (order, lines)| {
            let quantity = lines.iter().fold(0, |sum, (_, line)| sum + i64::from(line.quantity));
            if quantity > 300 {
                found.push((Reverse(order.price), order.date, *key, order.customer, quantity));
            }
            found
        },
        append,
    );
    large_volume_rows(&world.fixed, found, |key| world.customers.get(&key).map(|(row, _)| *row))
}

/// The answer of query 18, of all orders found.
pub(crate) fn large_volume_rows(
    fixed: &Fixed,
    mut found: Vec<Volume>,
    customer_of: impl Fn(u32) -> Option<Customer>,
) -> Answer<'_> {
    found.sort_unstable();
    found.truncate(100);
    let row = |(Reverse(price), day, key, customer, quantity): Volume| {
        let row = customer_of(customer).expect("orders have customers");
        vec![
            Value::Text(fixed.texts.customers.str(row.name)),
            Value::Count(i64::from(customer)),
            Value::Count(i64::from(key)),
            Value::Day(day),
            Value::Cents(i64::from(price)),
            Value::Count(quantity),
        ]
    };
    found.into_iter().map(row).collect()
}

/// Query 21.
pub(super) fn suppliers_who_kept_orders_waiting(world: &World) -> Answer<'_> {
    let fixed = &world.fixed;
    let nation = fixed.nation("SAUDI ARABIA");
    let wanted: Vec<bool> = fixed.supplier_nations().into_iter().map(|other| other == nation).collect();
    let waits = world.orders.scan(Grain::entries(world.orders.len() / 32)).semi_map_reduce(
        Vec::new(),
        |mut waits, _, (order, lines)| {
            if order.status != OrderStatus::Filled {
                return waits;
            }
            waits.resize(wanted.len(), 0);
            // Whoever alone was late with lines of the order, and is not alone in it.
            let late = lines.values().filter(|line| line.is_late());
            let (supplier, count) = late.fold((NOBODY, 0), |(supplier, count), line| match count {
                0 => (line.supplier, 1),
                _ if line.supplier == supplier => (supplier, count + 1),
                _ => (NOBODY, count),
            });
            if wanted[supplier as usize]
                && lines.values().fold(false, |other, line| other | (line.supplier != supplier))
            {
                waits[supplier as usize] += count;
            }
            waits
        },
        add_all,
    );
    let mut found: Vec<_> = waits
        .iter()
        .zip(0..)
        .filter(|(count, _)| **count > 0)
        .map(|(count, key)| (Reverse(*count), fixed.texts.suppliers.str(fixed.supplier(key).name)))
        .collect();
    found.sort_unstable();
    found.truncate(100);
    found.into_iter().map(|(Reverse(count), name)| vec![Value::Text(name), Value::Count(count)]).collect()
}
