// SPDX-License-Identifier: Apache-2.0
//! The twelve queries of the paper's Table 3 on flat trees.
//!
//! Lines and orders are joined by a merge of the two trees, or by lookups where few rows are left. What is done with the
//! sums is the nested queries' code.

use std::cmp::Reverse;

use coeval_ptree::Grain;

use crate::answers::{Answer, Value, revenue};
use crate::date::Date;
use crate::flat::{Flat, Storage};
use crate::queries::by_customer::{distribution_rows, shipment_rows, special_requests};
use crate::queries::by_day::{
    Pricing, Pricings, high_priorities, is_late_in_transit, mode_place, mode_rows, pricing_rows,
    priority_rows, volume_rows, wanted_modes,
};
use crate::queries::by_order::large_volume_rows;
use crate::queries::by_part::{cheapest_rows, share_rows};
use crate::queries::by_supplier::stock_rows;
use crate::queries::tables::{add, add_all, append, by_key};
use crate::rows::{Line, LineKey};

/// The queries of Table 3.
pub(crate) const NUMBERS: [usize; 12] = [1, 2, 3, 4, 5, 6, 8, 11, 12, 13, 14, 18];

impl<T: Storage> Flat<T> {
    /// The answer of a query of [`NUMBERS`].
    ///
    /// # Panics
    /// If it is another one.
    pub(crate) fn answer(&self, query: usize) -> Answer<'_> {
        match query {
            1 => self.pricing_summary(),
            2 => self.minimum_cost_supplier(),
            3 => self.shipping_priority(),
            4 => self.order_priority_checking(),
            5 => self.local_supplier_volume(),
            6 => self.forecasting_revenue_change(),
            8 => self.national_market_share(),
            11 => self.important_stock(),
            12 => self.shipping_modes(),
            13 => self.customer_distribution(),
            14 => self.promotion_effect(),
            18 => self.large_volume_customers(),
            other => panic!("query {other} is not one of the twelve"),
        }
    }

    fn pricing_summary(&self) -> Answer<'_> {
        let days = Date::NONE..Date::new(1998, 9, 3);
        let sums = self.fold_shipped(days, Pricings::default(), Pricing::count, Pricing::all);
        pricing_rows(&sums)
    }

    fn minimum_cost_supplier(&self) -> Answer<'_> {
        let fixed = &self.fixed;
        let brass = fixed.codes.kinds.which(|kind| kind.ends_with("BRASS"));
        let in_europe = fixed.nations_of("EUROPE");
        let mut offers: Vec<(u32, u32, u32)> = self.part_supps.semi_map_reduce(
            Vec::new(),
            |mut offers, (part, supplier), offer| {
                let row = fixed.part(*part);
                let fits = row.size == 15 && brass[usize::from(row.kind)];
                if fits && in_europe[usize::from(fixed.supplier(*supplier).nation)] {
                    offers.push((*part, offer.cost, *supplier));
                }
                offers
            },
            append,
        );
        offers.sort_unstable();
        let best = offers.chunk_by(|one, other| one.0 == other.0).flat_map(|of_part| {
            of_part.iter().take_while(|offer| offer.1 == of_part[0].1).map(|offer| (offer.0, offer.2))
        });
        cheapest_rows(fixed, best.collect())
    }

    fn shipping_priority(&self) -> Answer<'_> {
        let segment = self.fixed.codes.segments.code("BUILDING");
        let wanted = by_key(&self.customers, |customer| u8::from(customer.segment == segment));
        let day = Date::new(1995, 3, 15);
        let found = self.merge(
            Vec::new(),
            |found, key, order, lines| {
                if order.date < day && wanted[order.customer as usize] == 1 {
                    let later = lines.iter().filter(|line| line.ship > day);
                    let sum: i64 = later.map(|line| line.revenue()).sum();
                    if sum > 0 {
                        found.push((Reverse(sum), order.date, key, order.ship_priority));
                    }
                }
            },
            append,
        );
        shipment_rows(found)
    }

    fn order_priority_checking(&self) -> Answer<'_> {
        let quarter = Date::new(1993, 7, 1)..Date::new(1993, 10, 1);
        let counts = self.fold_orders(
            quarter,
            |_| true,
            [0; 8],
            |counts, order, lines| {
                counts[usize::from(order.priority)] += i64::from(lines.iter().any(|line| line.is_late()));
            },
            add,
        );
        priority_rows(&self.fixed, counts)
    }

    fn local_supplier_volume(&self) -> Answer<'_> {
        let fixed = &self.fixed;
        let in_asia = fixed.nations_of("ASIA");
        let customers = by_key(&self.customers, |customer| customer.nation);
        let suppliers = fixed.supplier_nations();
        let year = Date::new(1994, 1, 1)..Date::new(1995, 1, 1);
        let volumes = self.fold_orders(
            year,
            |order| in_asia[usize::from(customers[order.customer as usize])],
            [0; 25],
            |volumes, order, lines| {
                let nation = customers[order.customer as usize];
                let local = lines.iter().filter(|line| suppliers[line.supplier as usize] == nation);
                volumes[usize::from(nation)] += local.map(|line| line.revenue()).sum::<i64>();
            },
            add,
        );
        volume_rows(fixed, volumes)
    }

    fn forecasting_revenue_change(&self) -> Answer<'_> {
        let year = Date::new(1994, 1, 1)..Date::new(1995, 1, 1);
        let fold = |sum: &mut i64, line: &Line| {
            let counts = (5..=7).contains(&line.discount) & (line.quantity < 24);
            *sum += i64::from(line.price) * i64::from(line.discount) * i64::from(counts);
        };
        vec![vec![revenue(self.fold_shipped(year, 0, fold, |one, other| one + other))]]
    }

    fn national_market_share(&self) -> Answer<'_> {
        let fixed = &self.fixed;
        let kind = fixed.codes.kinds.code("ECONOMY ANODIZED STEEL");
        let (in_america, brazil) = (fixed.nations_of("AMERICA"), fixed.nation("BRAZIL"));
        let customers = by_key(&self.customers, |row| u8::from(in_america[usize::from(row.nation)]));
        let (first, middle, end) = (Date::new(1995, 1, 1), Date::new(1996, 1, 1), Date::new(1997, 1, 1));
        let lines = self.lines.semi_map_reduce(
            Vec::new(),
            |mut lines, key, line| {
                if fixed.part(line.part).kind == kind {
                    lines.push((key.order(), line.revenue(), fixed.supplier(line.supplier).nation == brazil));
                }
                lines
            },
            append,
        );
        let keys: Vec<u32> = lines.iter().map(|(order, ..)| *order).collect();
        let mut sums = [0; 4];
        for (order, (_, volume, is_national)) in
            self.orders.multi_find::<u32, _>(&keys).into_iter().zip(&lines)
        {
            let order = order.expect("lines have orders");
            if (first..end).contains(&order.date) && customers[order.customer as usize] == 1 {
                let year = usize::from(order.date >= middle);
                sums[2 * year] += volume * i64::from(*is_national);
                sums[2 * year + 1] += volume;
            }
        }
        share_rows(sums)
    }

    fn important_stock(&self) -> Answer<'_> {
        let nation = self.fixed.nation("GERMANY");
        let stock = self.part_supps.semi_map_reduce(
            Vec::new(),
            |mut stock, (part, supplier), offer| {
                if self.fixed.supplier(*supplier).nation == nation {
                    stock.push((*part, i64::from(offer.cost) * i64::from(offer.available)));
                }
                stock
            },
            append,
        );
        stock_rows(&self.fixed, stock)
    }

    fn shipping_modes(&self) -> Answer<'_> {
        let (wanted, high) = (wanted_modes(&self.fixed), high_priorities(&self.fixed));
        let year = Date::new(1994, 1, 1)..Date::new(1995, 1, 1);
        let fits = |line: &Line| wanted[usize::from(line.handling.mode())] & is_late_in_transit(line);
        let counts = match &self.by_day {
            None => self.merge(
                [0; 16],
                |counts, _, order, lines| {
                    let late = lines.iter().filter(|line| year.contains(&line.receipt) && fits(line));
                    late.for_each(|line| {
                        counts[mode_place(line.handling.mode(), order.priority, &high)] += 1
                    });
                },
                add,
            ),
            Some(by_day) => {
                let days = (year.start, LineKey::FIRST)..(year.end, LineKey::FIRST);
                let late: Vec<(u32, u8)> = by_day.received.range(days).semi_map_reduce(
                    Vec::new(),
                    |mut late, (_, key), line| {
                        if fits(line) {
                            late.push((key.order(), line.handling.mode()));
                        }
                        late
                    },
                    append,
                );
                let keys: Vec<u32> = late.iter().map(|(order, _)| *order).collect();
                let orders = self.orders.multi_find::<u32, _>(&keys).into_iter().flatten();
                orders.zip(&late).fold([0; 16], |mut counts, (order, (_, mode))| {
                    counts[mode_place(*mode, order.priority, &high)] += 1;
                    counts
                })
            }
        };
        mode_rows(&self.fixed, counts)
    }

    fn customer_distribution(&self) -> Answer<'_> {
        let is_special = special_requests();
        let comments = &self.fixed.texts.orders;
        let size = self.customers.last().map_or(0, |(key, _)| *key as usize + 1);
        let grain = Grain::entries(self.orders.len() / 4);
        let counts = self.orders.scan(grain).semi_map_reduce(
            Vec::new(),
            |mut counts, _, order| {
                counts.resize(size, 0);
                counts[order.customer as usize] += i64::from(!is_special(comments.bytes(order.comment)));
                counts
            },
            add_all,
        );
        distribution_rows(self.customers.keys().copied(), &counts)
    }

    fn promotion_effect(&self) -> Answer<'_> {
        let promoted = self.fixed.codes.kinds.which(|kind| kind.starts_with("PROMO"));
        let month = Date::new(1995, 9, 1)..Date::new(1995, 10, 1);
        let fold = |[promotion, all]: &mut [i64; 2], line: &Line| {
            let is_promoted = promoted[usize::from(self.fixed.part(line.part).kind)];
            *promotion += line.revenue() * i64::from(is_promoted);
            *all += line.revenue();
        };
        let sums = self.fold_shipped(month, [0; 2], fold, add);
        vec![vec![Value::Real(100.0 * sums[0] as f64 / sums[1] as f64)]]
    }

    fn large_volume_customers(&self) -> Answer<'_> {
        let found = self.merge(
            Vec::new(),
            |found, key, order, lines| {
                let quantity: i64 = lines.iter().map(|line| i64::from(line.quantity)).sum();
                if quantity > 300 {
                    found.push((Reverse(order.price), order.date, key, order.customer, quantity));
                }
            },
            append,
        );
        large_volume_rows(&self.fixed, found, |key| self.customers.get(&key).map(|row| **row))
    }
}
