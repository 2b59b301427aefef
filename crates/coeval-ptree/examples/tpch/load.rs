// SPDX-License-Identifier: Apache-2.0
//! Rows from the benchmark's generator.

use tpchgen::dates::TPCHDate;
use tpchgen::distribution::Distributions;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, OrderStatus as Status,
    PartGenerator, PartSuppGenerator, RegionGenerator, SupplierGenerator,
};

use crate::date::Date;
use crate::rows::{
    Customer, Handling, Line, LineKey, LineState, Nation, Order, OrderStatus, Part, PartSupp, Phone, Supplier,
};
use crate::text::{Arena, Dictionary};
use crate::world::{Codes, Fixed, Tables, Texts};

/// Generates all tables at a scale, the lines beside the rest.
pub(crate) fn tables(scale: f64) -> Tables {
    let codes = codes();
    let mut texts = Texts::default();
    let Texts { lines: line_text, orders: order_text, customers: customer_text, .. } = &mut texts;
    let (lines, (orders, customers)) = rayon::join(
        || lines(scale, &codes, line_text),
        || (orders(scale, &codes, order_text), customers(scale, &codes, customer_text)),
    );
    let part_supps = part_supps(scale, &mut texts.part_supps);
    let fixed = Fixed {
        suppliers: suppliers(scale, &mut texts.suppliers),
        parts: parts(scale, &codes, &mut texts.parts),
        nations: NationGenerator::new(scale, 1, 1)
            .into_iter()
            .map(|row| Nation { name: row.n_name, region: narrow(row.n_regionkey) })
            .collect(),
        regions: RegionGenerator::new(scale, 1, 1).into_iter().map(|row| row.r_name).collect(),
        texts,
        codes,
    };
    Tables { lines, orders, customers, part_supps, fixed }
}

fn codes() -> Codes {
    let known = Distributions::static_default();
    let brands: Vec<&'static str> = (11..=55).map(|number| &*format!("Brand#{number}").leak()).collect();
    Codes {
        instructions: Dictionary::new(known.ship_instructions().get_values()),
        modes: Dictionary::new(known.ship_modes().get_values()),
        priorities: Dictionary::new(known.order_priority().get_values()),
        segments: Dictionary::new(known.market_segments().get_values()),
        brands: Dictionary::new(&brands),
        kinds: Dictionary::new(known.part_types().get_values()),
        containers: Dictionary::new(known.part_containers().get_values()),
    }
}

/// A number of the generator in the width that a row has for it.
fn narrow<N: TryFrom<i64>>(number: impl Into<i64>) -> N {
    N::try_from(number.into()).ok().expect("rows are wide enough for scales below 60")
}

fn day(date: TPCHDate) -> Date {
    Date::from_days(date.to_unix_epoch())
}

fn phone(number: &impl ToString) -> Phone {
    number.to_string().as_bytes().try_into().expect("a number has fifteen characters")
}

fn lines(scale: f64, codes: &Codes, texts: &mut Arena) -> Vec<(LineKey, Line)> {
    let rows = LineItemGenerator::new(scale, 1, 1).into_iter();
    rows.map(|row| {
        let line = Line {
            part: narrow(row.l_partkey),
            supplier: narrow(row.l_suppkey),
            price: narrow(row.l_extendedprice.0),
            comment: texts.add(row.l_comment),
            ship: day(row.l_shipdate),
            commit: day(row.l_commitdate),
            receipt: day(row.l_receiptdate),
            quantity: narrow(row.l_quantity),
            discount: narrow(row.l_discount.0),
            tax: narrow(row.l_tax.0),
            state: LineState::new(row.l_returnflag, row.l_linestatus),
            handling: Handling::new(
                codes.instructions.code(row.l_shipinstruct),
                codes.modes.code(row.l_shipmode),
            ),
        };
        (LineKey::new(narrow(row.l_orderkey), narrow(row.l_linenumber)), line)
    })
    .collect()
}

fn orders(scale: f64, codes: &Codes, texts: &mut Arena) -> Vec<(u32, Order)> {
    let rows = OrderGenerator::new(scale, 1, 1).into_iter();
    rows.map(|row| {
        let clerk = row.o_clerk.to_string();
        let order = Order {
            customer: narrow(row.o_custkey),
            price: narrow(row.o_totalprice.0),
            comment: texts.add(row.o_comment),
            date: day(row.o_orderdate),
            clerk: clerk["Clerk#".len()..].parse().expect("clerks are numbered"),
            priority: codes.priorities.code(row.o_orderpriority),
            status: match row.o_orderstatus {
                Status::Fulfilled => OrderStatus::Filled,
                Status::Open => OrderStatus::Open,
                Status::Pending => OrderStatus::Partial,
            },
            ship_priority: narrow(row.o_shippriority),
        };
        (narrow(row.o_orderkey), order)
    })
    .collect()
}

fn customers(scale: f64, codes: &Codes, texts: &mut Arena) -> Vec<(u32, Customer)> {
    let rows = CustomerGenerator::new(scale, 1, 1).into_iter();
    rows.map(|row| {
        let customer = Customer {
            balance: row.c_acctbal.0,
            name: texts.add(&row.c_name.to_string()),
            address: texts.add(&row.c_address.to_string()),
            comment: texts.add(row.c_comment),
            phone: phone(&row.c_phone),
            nation: narrow(row.c_nationkey),
            segment: codes.segments.code(row.c_mktsegment),
        };
        (narrow(row.c_custkey), customer)
    })
    .collect()
}

fn suppliers(scale: f64, texts: &mut Arena) -> Vec<Supplier> {
    let rows = SupplierGenerator::new(scale, 1, 1).into_iter();
    rows.map(|row| Supplier {
        balance: row.s_acctbal.0,
        name: texts.add(&row.s_name.to_string()),
        address: texts.add(&row.s_address.to_string()),
        comment: texts.add(&row.s_comment),
        phone: phone(&row.s_phone),
        nation: narrow(row.s_nationkey),
    })
    .collect()
}

fn parts(scale: f64, codes: &Codes, texts: &mut Arena) -> Vec<Part> {
    let rows = PartGenerator::new(scale, 1, 1).into_iter();
    rows.map(|row| {
        let maker = row.p_mfgr.to_string();
        Part {
            price: narrow(row.p_retailprice.0),
            name: texts.add(&row.p_name.to_string()),
            comment: texts.add(row.p_comment),
            maker: maker["Manufacturer#".len()..].parse().expect("manufacturers are numbered"),
            brand: codes.brands.code(&row.p_brand.to_string()),
            kind: codes.kinds.code(row.p_type),
            size: narrow(row.p_size),
            container: codes.containers.code(row.p_container),
        }
    })
    .collect()
}

fn part_supps(scale: f64, texts: &mut Arena) -> Vec<((u32, u32), PartSupp)> {
    let rows = PartSuppGenerator::new(scale, 1, 1).into_iter();
    rows.map(|row| {
        let part_supp = PartSupp {
            available: row.ps_availqty,
            cost: narrow(row.ps_supplycost.0),
            comment: texts.add(row.ps_comment),
        };
        ((narrow(row.ps_partkey), narrow(row.ps_suppkey)), part_supp)
    })
    .collect()
}
