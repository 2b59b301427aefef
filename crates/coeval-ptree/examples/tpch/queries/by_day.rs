// SPDX-License-Identifier: Apache-2.0
//! Queries on a range of days: of shipping (1, 6, 14, 15), of receipt (12), of orders (4, 5, 10).

use std::cmp::Reverse;

use coeval_ptree::Grain;

use crate::answers::{Answer, Value, revenue};
use crate::date::Date;
use crate::queries::tables::{add, add_all, append, by_key};
use crate::rows::{Line, LineState};
use crate::world::{Fixed, World};

/// A day's two thousand lines or six hundred orders are work for a task.
const DAY: Grain = Grain::entries(1);

/// What query 1 sums up for each state of lines.
#[derive(Clone, Copy, Default)]
pub(crate) struct Pricing {
    quantity: i64,
    price: i64,
    discount: i64,
    discounted: i64,
    charged: i64,
    count: i64,
}

/// The sums of query 1, by state.
pub(crate) type Pricings = [Pricing; LineState::COUNT];

impl Pricing {
    /// Adds a line to the sums of its state.
    #[inline]
    pub(crate) fn count(sums: &mut Pricings, line: &Line) {
        let sum = &mut sums[line.state.index()];
        let revenue = line.revenue();
        sum.quantity += i64::from(line.quantity);
        sum.price += i64::from(line.price);
        sum.discount += i64::from(line.discount);
        sum.discounted += revenue;
        sum.charged += revenue * (100 + i64::from(line.tax));
        sum.count += 1;
    }

    /// The sums of both.
    pub(crate) fn all(one: Pricings, other: Pricings) -> Pricings {
        std::array::from_fn(|state| one[state].plus(other[state]))
    }

    fn plus(self, other: Self) -> Self {
        Pricing {
            quantity: self.quantity + other.quantity,
            price: self.price + other.price,
            discount: self.discount + other.discount,
            discounted: self.discounted + other.discounted,
            charged: self.charged + other.charged,
            count: self.count + other.count,
        }
    }
}

/// Query 1.
pub(super) fn pricing_summary(world: &World) -> Answer<'_> {
    let last = Date::new(1998, 9, 2);
    let sums = world.by_ship_date.range(..=last).scan(DAY).map_reduce(
        |_, lines| {
            let mut sums = Pricings::default();
            lines.iter().for_each(|(_, line)| Pricing::count(&mut sums, line));
            sums
        },
        Pricing::all,
        Pricings::default(),
    );
    pricing_rows(&sums)
}

/// The answer of query 1.
pub(crate) fn pricing_rows(sums: &Pricings) -> Answer<'static> {
    let states = sums.iter().enumerate().filter(|(_, sum)| sum.count > 0);
    let row = |(state, sum): (usize, &Pricing)| {
        let (flag, status) = LineState::names(state);
        let average = |total: i64| Value::Real(total as f64 / sum.count as f64);
        let hundredths = |total: i64| Value::Real(total as f64 / sum.count as f64 / 100.0);
        vec![
            Value::Text(flag),
            Value::Text(status),
            Value::Count(sum.quantity),
            Value::Cents(sum.price),
            revenue(sum.discounted),
            Value::Real(sum.charged as f64 / 1_000_000.0),
            average(sum.quantity),
            hundredths(sum.price),
            hundredths(sum.discount),
            Value::Count(sum.count),
        ]
    };
    states.map(row).collect()
}

/// Query 4.
pub(super) fn order_priority_checking(world: &World) -> Answer<'_> {
    let quarter = Date::new(1993, 7, 1)..Date::new(1993, 10, 1);
    let counts = world.by_order_date.range(quarter).scan(DAY).map_reduce(
        |_, orders| {
            let mut counts = [0; 8];
            orders.iter().for_each(|(_, (order, lines))| {
                let late = lines.values().fold(false, |late, line| late | line.is_late());
                counts[usize::from(order.priority)] += i64::from(late);
            });
            counts
        },
        add,
        [0; 8],
    );
    priority_rows(&world.fixed, counts)
}

/// The answer of query 4, of a count for each priority.
pub(crate) fn priority_rows(fixed: &Fixed, counts: [i64; 8]) -> Answer<'_> {
    let priorities = &fixed.codes.priorities;
    let found = (0..).zip(counts).filter(|(_, count)| *count > 0);
    found.map(|(code, count)| vec![Value::Text(priorities.name(code)), Value::Count(count)]).collect()
}

/// Query 5.
pub(super) fn local_supplier_volume(world: &World) -> Answer<'_> {
    let fixed = &world.fixed;
    let in_asia = fixed.nations_of("ASIA");
    let customers = by_key(&world.customers, |(customer, _)| customer.nation);
    let suppliers = fixed.supplier_nations();
    let year = Date::new(1994, 1, 1)..Date::new(1995, 1, 1);
    let volumes = world.by_order_date.range(year).scan(DAY).map_reduce(
        |_, orders| {
            let mut volumes = [0; 25];
            orders.iter().for_each(|(_, (order, lines))| {
                let nation = customers[order.customer as usize];
                if in_asia[usize::from(nation)] {
                    lines
                        .iter()
                        .filter(|(_, line)| suppliers[line.supplier as usize] == nation)
                        .for_each(|(_, line)| volumes[usize::from(nation)] += line.revenue());
                }
            });
            volumes
        },
        add,
        [0; 25],
    );
    volume_rows(fixed, volumes)
}

/// The answer of query 5, of a sum for each nation.
pub(crate) fn volume_rows(fixed: &Fixed, volumes: [i64; 25]) -> Answer<'_> {
    let mut found: Vec<_> = fixed.nations.iter().zip(volumes).filter(|(_, volume)| *volume > 0).collect();
    found.sort_unstable_by_key(|(_, volume)| Reverse(*volume));
    found.into_iter().map(|(nation, volume)| vec![Value::Text(nation.name), revenue(volume)]).collect()
}

/// Query 6.
pub(super) fn forecasting_revenue_change(world: &World) -> Answer<'_> {
    let year = Date::new(1994, 1, 1)..Date::new(1995, 1, 1);
    let sum = world.by_ship_date.range(year).scan(DAY).map_reduce(
        |_, lines| {
            lines.iter().fold(0, |sum, (_, line)| {
                let counts = (5..=7).contains(&line.discount) & (line.quantity < 24);
                sum + i64::from(line.price) * i64::from(line.discount) * i64::from(counts)
            })
        },
        |one, other| one + other,
        0,
    );
    vec![vec![revenue(sum)]]
}

/// Query 10.
pub(super) fn returned_items(world: &World) -> Answer<'_> {
    let quarter = Date::new(1993, 10, 1)..Date::new(1994, 1, 1);
    let returns: Vec<(u32, i64)> = world.by_order_date.range(quarter).scan(DAY).map_reduce(
        |_, orders| {
            let mut returns = Vec::new();
            orders.iter().for_each(|(_, (order, lines))| {
                let returned = lines.values().filter(|line| line.state.is_returned());
                let lost: i64 = returned.map(|line| line.revenue()).sum();
                if lost > 0 {
                    returns.push((order.customer, lost));
                }
            });
            returns
        },
        append,
        Vec::new(),
    );
    let mut lost = vec![0; world.customers.last().map_or(0, |(key, _)| *key as usize + 1)];
    returns.iter().for_each(|(customer, revenue)| lost[*customer as usize] += revenue);
    let mut customers: Vec<(Reverse<i64>, u32)> =
        (0..).zip(&lost).filter(|(_, lost)| **lost > 0).map(|(key, lost)| (Reverse(*lost), key)).collect();
    if customers.len() > 20 {
        customers.select_nth_unstable(19);
        customers.truncate(20);
    }
    customers.sort_unstable();
    let texts = &world.fixed.texts.customers;
    let row = |(Reverse(lost), key): (Reverse<i64>, u32)| {
        let (customer, _) = world.customers.get(&key).expect("orders have customers");
        vec![
            Value::Count(i64::from(key)),
            Value::Text(texts.str(customer.name)),
            revenue(lost),
            Value::Cents(customer.balance),
            Value::Text(world.fixed.nations[usize::from(customer.nation)].name),
            Value::Text(texts.str(customer.address)),
            Value::Text(std::str::from_utf8(&customer.phone).expect("digits")),
            Value::Text(texts.str(customer.comment)),
        ]
    };
    customers.into_iter().map(row).collect()
}

/// Query 12.
pub(super) fn shipping_modes(world: &World) -> Answer<'_> {
    let (wanted, high) = (wanted_modes(&world.fixed), high_priorities(&world.fixed));
    let year = Date::new(1994, 1, 1)..Date::new(1995, 1, 1);
    let counts = world.by_receipt_date.range(year).scan(DAY).map_reduce(
        |_, lines| {
            let late = lines
                .iter()
                .filter(|(_, line)| wanted[usize::from(line.handling.mode())] & is_late_in_transit(line));
            let found: Vec<(u32, u8)> = late.map(|(key, line)| (key.order(), line.handling.mode())).collect();
            let keys: Vec<u32> = found.iter().map(|(key, _)| *key).collect();
            let mut counts = [0; 16];
            for (order, (_, mode)) in world.orders.multi_find::<u32, _>(&keys).into_iter().zip(&found) {
                let (order, _) = order.expect("lines have orders");
                counts[mode_place(*mode, order.priority, &high)] += 1;
            }
            counts
        },
        add,
        [0; 16],
    );
    mode_rows(&world.fixed, counts)
}

/// The modes that query 12 asks for.
pub(crate) fn wanted_modes(fixed: &Fixed) -> Vec<bool> {
    fixed.codes.modes.which(|mode| mode == "MAIL" || mode == "SHIP")
}

/// The priorities that query 12 calls high.
pub(crate) fn high_priorities(fixed: &Fixed) -> Vec<bool> {
    fixed.codes.priorities.which(|priority| priority == "1-URGENT" || priority == "2-HIGH")
}

/// Whether query 12 counts a line of a mode it wants that was received in its year.
#[inline]
pub(crate) fn is_late_in_transit(line: &Line) -> bool {
    line.is_late() & (line.ship < line.commit)
}

/// Where query 12 counts a line of this mode, of an order of this priority.
#[inline]
pub(crate) fn mode_place(mode: u8, priority: u8, high: &[bool]) -> usize {
    2 * usize::from(mode) + usize::from(!high[usize::from(priority)])
}

/// The answer of query 12, of two counts for each mode.
pub(crate) fn mode_rows(fixed: &Fixed, counts: [i64; 16]) -> Answer<'_> {
    let (codes, wanted) = (&fixed.codes, wanted_modes(fixed));
    let row = |code: u8| {
        let counts = &counts[2 * usize::from(code)..][..2];
        vec![Value::Text(codes.modes.name(code)), Value::Count(counts[0]), Value::Count(counts[1])]
    };
    (0..).zip(&wanted).filter(|(_, wanted)| **wanted).map(|(code, _)| row(code)).collect()
}

/// Query 12 without the tree by receipt date: on all orders with their lines.
pub(crate) fn shipping_modes_by_order(world: &World) -> Answer<'_> {
    let (wanted, high) = (wanted_modes(&world.fixed), high_priorities(&world.fixed));
    let year = Date::new(1994, 1, 1)..Date::new(1995, 1, 1);
    let counts = world.orders.scan(Grain::for_work(20)).semi_map_reduce(
        [0; 16],
        |mut counts, _, (order, lines)| {
            lines.iter().for_each(|(_, line)| {
                let mode = line.handling.mode();
                let fits =
                    year.contains(&line.receipt) & wanted[usize::from(mode)] & is_late_in_transit(line);
                counts[mode_place(mode, order.priority, &high)] += i64::from(fits);
            });
            counts
        },
        add,
    );
    mode_rows(&world.fixed, counts)
}

/// Query 14.
pub(super) fn promotion_effect(world: &World) -> Answer<'_> {
    let promoted = world.fixed.codes.kinds.which(|kind| kind.starts_with("PROMO"));
    let month = Date::new(1995, 9, 1)..Date::new(1995, 10, 1);
    let sums = world.by_ship_date.range(month).scan(DAY).map_reduce(
        |_, lines| {
            lines.iter().fold([0; 2], |[promotion, all], (_, line)| {
                let is_promoted = promoted[usize::from(world.fixed.part(line.part).kind)];
                [promotion + line.revenue() * i64::from(is_promoted), all + line.revenue()]
            })
        },
        add,
        [0; 2],
    );
    vec![vec![Value::Real(100.0 * sums[0] as f64 / sums[1] as f64)]]
}

/// Query 15.
pub(super) fn top_supplier(world: &World) -> Answer<'_> {
    let fixed = &world.fixed;
    let quarter = world.by_ship_date.range(Date::new(1996, 1, 1)..Date::new(1996, 4, 1));
    // A sum per supplier for each task: few tasks.
    let sums = quarter.scan(Grain::entries(12)).semi_map_reduce(
        Vec::new(),
        |mut sums, _, lines| {
            sums.resize(fixed.suppliers.len() + 1, 0);
            lines.iter().for_each(|(_, line)| sums[line.supplier as usize] += line.revenue());
            sums
        },
        add_all,
    );
    let most = sums.iter().max().copied().unwrap_or(0);
    let texts = &fixed.texts.suppliers;
    let row = |key: u32| {
        let supplier = fixed.supplier(key);
        vec![
            Value::Count(i64::from(key)),
            Value::Text(texts.str(supplier.name)),
            Value::Text(texts.str(supplier.address)),
            Value::Text(std::str::from_utf8(&supplier.phone).expect("digits")),
            revenue(most),
        ]
    };
    (0..).zip(&sums).filter(|(_, sum)| most > 0 && **sum == most).map(|(key, _)| row(key)).collect()
}
