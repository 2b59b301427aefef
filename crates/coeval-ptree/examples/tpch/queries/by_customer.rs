// SPDX-License-Identifier: Apache-2.0
//! Queries on some of the customers: their orders (3), their orders' lines (7), the number of orders (13), none (22).

use std::cmp::Reverse;

use coeval_ptree::Grain;
use memchr::memmem::Finder;

use crate::answers::{Answer, Value, revenue};
use crate::date::Date;
use crate::queries::tables::{add, add_all, append};
use crate::rows::Phone;
use crate::world::World;

/// What query 3 finds of an order.
pub(crate) type Shipment = (Reverse<i64>, Date, u32, u8);

/// For a customer's orders and their lines.
const ORDERS_AND_LINES: Grain = Grain::for_work(300);

/// Query 3.
pub(super) fn shipping_priority(world: &World) -> Answer<'_> {
    let segment = world.fixed.codes.segments.code("BUILDING");
    let day = Date::new(1995, 3, 15);
    let found = world.customers.scan(ORDERS_AND_LINES).semi_map_reduce(
        Vec::new(),
        |mut found, _, (customer, orders)| {
            if customer.segment == segment {
                orders.iter().filter(|(_, (order, _))| order.date < day).for_each(|(key, (order, lines))| {
                    let later = lines.values().filter(|line| line.ship > day);
                    let sum: i64 = later.map(|line| line.revenue()).sum();
                    if sum > 0 {
                        found.push((Reverse(sum), order.date, *key, order.ship_priority));
                    }
                });
            }
            found
        },
        append,
    );
    shipment_rows(found)
}

/// The answer of query 3, of all orders found.
pub(crate) fn shipment_rows(mut found: Vec<Shipment>) -> Answer<'static> {
    if found.len() > 10 {
        found.select_nth_unstable(9);
        found.truncate(10);
    }
    found.sort_unstable();
    let row = |(Reverse(sum), day, key, priority): Shipment| {
        vec![Value::Count(i64::from(key)), revenue(sum), Value::Day(day), Value::Count(i64::from(priority))]
    };
    found.into_iter().map(row).collect()
}

/// Query 7.
pub(super) fn volume_shipping(world: &World) -> Answer<'_> {
    let fixed = &world.fixed;
    let nations = [fixed.nation("FRANCE"), fixed.nation("GERMANY")];
    let suppliers = fixed.supplier_nations();
    let years = [1995, 1996];
    let (first, middle, last) = (Date::new(1995, 1, 1), Date::new(1996, 1, 1), Date::new(1996, 12, 31));
    // By the nation of the customer, one of the two, and the year.
    let sums = world.customers.scan(ORDERS_AND_LINES).semi_map_reduce(
        [0; 4],
        |mut sums, _, (customer, orders)| {
            let Some(at) = nations.iter().position(|nation| *nation == customer.nation) else { return sums };
            let from = nations[1 - at];
            orders.iter().for_each(|(_, (_, lines))| {
                lines.iter().for_each(|(_, line)| {
                    if line.ship >= first && line.ship <= last && suppliers[line.supplier as usize] == from {
                        sums[2 * at + usize::from(line.ship >= middle)] += line.revenue();
                    }
                });
            });
            sums
        },
        add,
    );
    let name = |at: usize| Value::Text(fixed.nations[usize::from(nations[at])].name);
    let places = [(0, 0), (0, 1), (1, 0), (1, 1)];
    let row = |(supplier, year): (usize, usize)| {
        let customer = 1 - supplier;
        vec![name(supplier), name(customer), Value::Count(years[year]), revenue(sums[2 * customer + year])]
    };
    places.into_iter().map(row).collect()
}

/// Query 13.
pub(super) fn customer_distribution(world: &World) -> Answer<'_> {
    let is_special = special_requests();
    let comments = &world.fixed.texts.orders;
    let size = world.customers.last().map_or(0, |(key, _)| *key as usize + 1);
    // By order, since that is how the comments lie. A count per customer for each task: few tasks.
    let counts = world.orders.scan(Grain::entries(world.orders.len() / 4)).semi_map_reduce(
        Vec::new(),
        |mut counts, _, (order, _)| {
            if counts.is_empty() {
                counts = vec![0i64; size];
            }
            counts[order.customer as usize] += i64::from(!is_special(comments.bytes(order.comment)));
            counts
        },
        add_all,
    );
    distribution_rows(world.customers.keys().copied(), &counts)
}

/// Whether a comment is what query 13 looks for.
pub(crate) fn special_requests() -> impl Fn(&[u8]) -> bool {
    let (special, requests) = (Finder::new("special"), Finder::new("requests"));
    move |comment| {
        special.find(comment).is_some_and(|at| requests.find(&comment[at + "special".len()..]).is_some())
    }
}

/// The answer of query 13, of the customers' keys and a count for each key.
pub(crate) fn distribution_rows(keys: impl Iterator<Item = u32>, counts: &[i64]) -> Answer<'static> {
    let mut customers = Vec::new();
    keys.for_each(|key| {
        let count = counts.get(key as usize).map_or(0, |count| *count as usize);
        if customers.len() <= count {
            customers.resize(count + 1, 0);
        }
        customers[count] += 1;
    });
    let mut found: Vec<(i64, i64)> =
        customers.into_iter().zip(0..).filter(|(customers, _)| *customers > 0).collect();
    found.sort_unstable_by_key(|row| Reverse(*row));
    found.into_iter().map(|(customers, count)| vec![Value::Count(count), Value::Count(customers)]).collect()
}

/// Query 22.
pub(super) fn global_sales_opportunity(world: &World) -> Answer<'_> {
    const COUNTRIES: [&str; 7] = ["13", "17", "18", "23", "29", "30", "31"];
    // By the two digits of a country's code, its place among those asked for; a branch per customer would be a guess.
    let mut places = [COUNTRIES.len() as u8; 256];
    for (place, code) in (0..).zip(COUNTRIES) {
        places[code.parse::<usize>().expect("two digits")] = place;
    }
    let place = |phone: &Phone| {
        let digit = |at: usize| usize::from(phone[at].wrapping_sub(b'0') & 15);
        usize::from(places[10 * digit(0) + digit(1)])
    };
    let [sum, count] = world.customers.semi_map_reduce(
        [0; 2],
        |[sum, count], _, (customer, _)| {
            let counts = i64::from((customer.balance > 0) & (place(&customer.phone) < COUNTRIES.len()));
            [sum + customer.balance * counts, count + counts]
        },
        add,
    );
    let found = world.customers.semi_map_reduce(
        [0; 16],
        |mut found, _, (customer, orders)| {
            // Above the average: the sum of all is less than as many times this one.
            let counts = i64::from((customer.balance * count > sum) & orders.is_empty());
            let place = place(&customer.phone);
            found[2 * place] += counts;
            found[2 * place + 1] += customer.balance * counts;
            found
        },
        add,
    );
    let rows = COUNTRIES.iter().zip(found.chunks(2)).filter(|(_, found)| found[0] > 0);
    rows.map(|(code, found)| vec![Value::Text(code), Value::Count(found[0]), Value::Cents(found[1])])
        .collect()
}
