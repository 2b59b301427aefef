// SPDX-License-Identifier: Apache-2.0
//! Queries on some of the parts: who supplies them (2, 16, 20), and their lines (8, 9, 17, 19, 20).

use std::cmp::Reverse;

use coeval_ptree::Grain;
use memchr::memmem::Finder;
use rayon::slice::ParallelSliceMut;

use crate::answers::{Answer, Value, revenue};
use crate::date::Date;
use crate::queries::tables::{add, add_all, append, by_key};
use crate::rows::{Line, Part};
use crate::world::{Fixed, World};

/// For parts few of which are picked.
const FEW: Grain = Grain::for_work(10);

/// Query 2.
pub(super) fn minimum_cost_supplier(world: &World) -> Answer<'_> {
    let fixed = &world.fixed;
    let brass = fixed.codes.kinds.which(|kind| kind.ends_with("BRASS"));
    let in_europe = fixed.nations_of("EUROPE");
    let found: Vec<(u32, u32)> = world.parts.scan(FEW).semi_map_reduce(
        Vec::new(),
        |mut found, key, (part, part_supps)| {
            if part.size == 15 && brass[usize::from(part.kind)] {
                let european = |supplier: u32| in_europe[usize::from(fixed.supplier(supplier).nation)];
                let offers = || part_supps.iter().filter(|((_, supplier), _)| european(*supplier));
                if let Some(least) = offers().map(|(_, (offer, _))| offer.cost).min() {
                    let best = offers().filter(|(_, (offer, _))| offer.cost == least);
                    found.extend(best.map(|((_, supplier), _)| (*key, *supplier)));
                }
            }
            found
        },
        append,
    );
    cheapest_rows(fixed, found)
}

/// The answer of query 2, of parts and suppliers.
pub(crate) fn cheapest_rows(fixed: &Fixed, found: Vec<(u32, u32)>) -> Answer<'_> {
    let texts = &fixed.texts.suppliers;
    let mut found: Vec<_> = found
        .into_iter()
        .map(|(part, key)| {
            let supplier = fixed.supplier(key);
            let nation = fixed.nations[usize::from(supplier.nation)].name;
            (Reverse(supplier.balance), nation, texts.str(supplier.name), part, supplier)
        })
        .collect();
    found.sort_unstable_by_key(|(balance, nation, name, part, _)| (*balance, *nation, *name, *part));
    found.truncate(100);
    let makers =
        ["", "Manufacturer#1", "Manufacturer#2", "Manufacturer#3", "Manufacturer#4", "Manufacturer#5"];
    found
        .into_iter()
        .map(|(Reverse(balance), nation, name, part, supplier)| {
            vec![
                Value::Cents(balance),
                Value::Text(name),
                Value::Text(nation),
                Value::Count(i64::from(part)),
                Value::Text(makers[usize::from(fixed.part(part).maker)]),
                Value::Text(texts.str(supplier.address)),
                Value::Text(std::str::from_utf8(&supplier.phone).expect("digits")),
                Value::Text(texts.str(supplier.comment)),
            ]
        })
        .collect()
}

/// Query 8.
pub(super) fn national_market_share(world: &World) -> Answer<'_> {
    let fixed = &world.fixed;
    let kind = fixed.codes.kinds.code("ECONOMY ANODIZED STEEL");
    let in_america = fixed.nations_of("AMERICA");
    let brazil = fixed.nation("BRAZIL");
    let customers =
        by_key(&world.customers, |(customer, _)| u8::from(in_america[usize::from(customer.nation)]));
    let (first, middle, last) = (Date::new(1995, 1, 1), Date::new(1996, 1, 1), Date::new(1996, 12, 31));
    // For each year, what came from Brazil and all.
    let sums = world.parts.scan(FEW).semi_map_reduce(
        [0; 4],
        |mut sums, _, (part, part_supps)| {
            if part.kind != kind {
                return sums;
            }
            let mut lines: Vec<(u32, i64, bool)> = Vec::new();
            part_supps.iter().for_each(|((_, supplier), (_, of_supplier))| {
                let is_national = fixed.supplier(*supplier).nation == brazil;
                of_supplier
                    .iter()
                    .for_each(|(key, line)| lines.push((key.order(), line.revenue(), is_national)));
            });
            let keys: Vec<u32> = lines.iter().map(|(order, ..)| *order).collect();
            for (order, (_, volume, is_national)) in
                world.orders.multi_find::<u32, _>(&keys).into_iter().zip(&lines)
            {
                let (order, _) = order.expect("lines have orders");
                if order.date >= first && order.date <= last && customers[order.customer as usize] == 1 {
                    let year = usize::from(order.date >= middle);
                    sums[2 * year] += volume * i64::from(*is_national);
                    sums[2 * year + 1] += volume;
                }
            }
            sums
        },
        add,
    );
    share_rows(sums)
}

/// The answer of query 8, of two sums for each year.
pub(crate) fn share_rows(sums: [i64; 4]) -> Answer<'static> {
    let share = |year: usize| Value::Real(sums[2 * year] as f64 / sums[2 * year + 1] as f64);
    vec![vec![Value::Count(1995), share(0)], vec![Value::Count(1996), share(1)]]
}

/// Query 9.
pub(super) fn product_type_profit(world: &World) -> Answer<'_> {
    const YEARS: usize = 16;
    const FIRST_YEAR: i32 = 1990;
    let fixed = &world.fixed;
    let green = Finder::new("green");
    // The only thing asked of orders, for a fifth of a million lines: a byte each.
    let days = world.by_order_date.last().map_or(0, |(day, _)| day.days() + 1);
    let year_of_day: Vec<u8> =
        (0..days).map(|day| (Date::from_days(day as i32).year() - FIRST_YEAR) as u8).collect();
    let years = by_key(&world.orders, |(order, _)| year_of_day[order.date.days()]);
    let profits = world.parts.scan(Grain::for_work(500)).semi_map_reduce(
        Vec::new(),
        |mut profits, _, (part, part_supps)| {
            if green.find(fixed.texts.parts.bytes(part.name)).is_none() {
                return profits;
            }
            profits.resize(fixed.nations.len() * YEARS, 0);
            part_supps.iter().for_each(|((_, supplier), (part_supp, lines))| {
                let nation = YEARS * usize::from(fixed.supplier(*supplier).nation);
                let cost = 100 * i64::from(part_supp.cost);
                lines.iter().for_each(|(key, line)| {
                    let year = usize::from(years[key.order() as usize]);
                    profits[nation + year] += line.revenue() - cost * i64::from(line.quantity);
                });
            });
            profits
        },
        add_all,
    );
    let mut nations: Vec<_> = fixed.nations.iter().zip(profits.chunks(YEARS)).collect();
    nations.sort_unstable_by_key(|(nation, _)| nation.name);
    let rows = nations.iter().flat_map(|(nation, profits)| {
        let years = profits.iter().enumerate().rev().filter(|(_, profit)| **profit != 0);
        years.map(|(year, profit)| {
            let year = i64::from(FIRST_YEAR) + year as i64;
            vec![Value::Text(nation.name), Value::Count(year), revenue(*profit)]
        })
    });
    rows.collect()
}

/// Query 16.
pub(super) fn parts_supplier_relationship(world: &World) -> Answer<'_> {
    let fixed = &world.fixed;
    let codes = &fixed.codes;
    let (customer, complaints) = (Finder::new("Customer"), Finder::new("Complaints"));
    let complained: Vec<bool> = fixed
        .suppliers
        .iter()
        .map(|supplier| {
            let comment = fixed.texts.suppliers.bytes(supplier.comment);
            customer.find(comment).is_some_and(|at| complaints.find(&comment[at..]).is_some())
        })
        .collect();
    let wanted = codes.kinds.which(|kind| !kind.starts_with("MEDIUM POLISHED"));
    let brand = codes.brands.code("Brand#45");
    let mut pairs: Vec<u64> = world.parts.scan(FEW).semi_map_reduce(
        Vec::new(),
        |mut pairs, _, (part, part_supps)| {
            let fits = part.brand != brand
                && wanted[usize::from(part.kind)]
                && [49, 14, 23, 45, 19, 3, 36, 9].contains(&part.size);
            if fits {
                let group =
                    u64::from(part.brand) << 48 | u64::from(part.kind) << 40 | u64::from(part.size) << 32;
                let suppliers = part_supps.iter().map(|((_, supplier), _)| *supplier);
                let suppliers = suppliers.filter(|supplier| !complained[*supplier as usize - 1]);
                pairs.extend(suppliers.map(|supplier| group | u64::from(supplier)));
            }
            pairs
        },
        append,
    );
    pairs.par_sort_unstable();
    pairs.dedup();
    let groups = pairs.chunk_by(|one, other| one >> 32 == other >> 32);
    let mut found: Vec<(Reverse<usize>, u64)> =
        groups.map(|group| (Reverse(group.len()), group[0] >> 32)).collect();
    // Codes are in the order of what they stand for.
    found.sort_unstable();
    let row = |(Reverse(count), group): (Reverse<usize>, u64)| {
        vec![
            Value::Text(codes.brands.name((group >> 16) as u8)),
            Value::Text(codes.kinds.name((group >> 8) as u8)),
            Value::Count((group & 0xff) as i64),
            Value::Count(count as i64),
        ]
    };
    found.into_iter().map(row).collect()
}

/// Query 17.
pub(super) fn small_quantity_order_revenue(world: &World) -> Answer<'_> {
    let codes = &world.fixed.codes;
    let (brand, container) = (codes.brands.code("Brand#23"), codes.containers.code("MED BOX"));
    let sum: i64 = world.parts.scan(FEW).map_reduce(
        |_, (part, part_supps)| {
            if part.brand != brand || part.container != container {
                return 0;
            }
            let lines = || part_supps.values().flat_map(|(_, lines)| lines.values());
            let (quantity, count) =
                lines().fold((0, 0), |(sum, count), line| (sum + i64::from(line.quantity), count + 1));
            let small = lines().filter(|line| 5 * count * i64::from(line.quantity) < quantity);
            small.map(|line| i64::from(line.price)).sum()
        },
        |one, other| one + other,
        0,
    );
    vec![vec![Value::Real(sum as f64 / 100.0 / 7.0)]]
}

/// Query 19.
pub(super) fn discounted_revenue(world: &World) -> Answer<'_> {
    let codes = &world.fixed.codes;
    let containers = |names: [&'static str; 4]| codes.containers.which(|name| names.contains(&name));
    let terms = [
        (codes.brands.code("Brand#12"), containers(["SM CASE", "SM BOX", "SM PACK", "SM PKG"]), 1, 5),
        (codes.brands.code("Brand#23"), containers(["MED BAG", "MED BOX", "MED PKG", "MED PACK"]), 10, 10),
        (codes.brands.code("Brand#34"), containers(["LG CASE", "LG BOX", "LG PACK", "LG PKG"]), 20, 15),
    ];
    // The mode AIR REG, which the query asks for, is spelled REG AIR in the data.
    let by_air = codes.modes.which(|mode| mode == "AIR" || mode == "AIR REG");
    let in_person = codes.instructions.code("DELIVER IN PERSON");
    let least_quantity = |part: &Part| {
        let fits = |(brand, containers, _, size): &&(u8, Vec<bool>, u8, u8)| {
            part.brand == *brand
                && containers[usize::from(part.container)]
                && (1..=*size).contains(&part.size)
        };
        terms.iter().find(fits).map(|(_, _, least, _)| *least)
    };
    let sum: i64 = world.parts.scan(FEW).map_reduce(
        |_, (part, part_supps)| {
            let Some(least) = least_quantity(part) else { return 0 };
            let counts = |line: &&Line| {
                by_air[usize::from(line.handling.mode())]
                    && line.handling.instruction() == in_person
                    && (least..=least + 10).contains(&line.quantity)
            };
            let lines = part_supps.values().flat_map(|(_, lines)| lines.values());
            lines.filter(counts).map(|line| line.revenue()).sum()
        },
        |one, other| one + other,
        0,
    );
    vec![vec![revenue(sum)]]
}

/// Query 20.
pub(super) fn potential_part_promotion(world: &World) -> Answer<'_> {
    let fixed = &world.fixed;
    let nation = fixed.nation("CANADA");
    let year = Date::new(1994, 1, 1)..Date::new(1995, 1, 1);
    let mut found: Vec<u32> = world.parts.scan(FEW).semi_map_reduce(
        Vec::new(),
        |mut found, _, (part, part_supps)| {
            if fixed.texts.parts.bytes(part.name).starts_with(b"forest") {
                part_supps.iter().for_each(|((_, supplier), (part_supp, lines))| {
                    if fixed.supplier(*supplier).nation == nation {
                        let sold = lines.values().filter(|line| year.contains(&line.ship));
                        let sold: i32 = sold.map(|line| i32::from(line.quantity)).sum();
                        if sold > 0 && 2 * part_supp.available > sold {
                            found.push(*supplier);
                        }
                    }
                });
            }
            found
        },
        append,
    );
    found.sort_unstable();
    found.dedup();
    let texts = &fixed.texts.suppliers;
    let mut names: Vec<_> = found
        .into_iter()
        .map(|key| (texts.str(fixed.supplier(key).name), texts.str(fixed.supplier(key).address)))
        .collect();
    names.sort_unstable();
    names.into_iter().map(|(name, address)| vec![Value::Text(name), Value::Text(address)]).collect()
}
