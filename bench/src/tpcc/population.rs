// SPDX-License-Identifier: Apache-2.0
//! TPC-C's initial population (clause 4.3.3) as Arrow batches, table by table and warehouse by warehouse.
//!
//! The same seed gives the same rows, whatever the order in which batches are asked for. All times are
//! [`POPULATION_TIME`], so that two populations of one seed are equal to the byte.

use super::choice::{Choice, NuRandConstants, last_name};
use super::schema::{CUSTOMER, DISTRICT, HISTORY, ITEM, NEW_ORDER, ORDER_LINE, ORDERS, STOCK, WAREHOUSE};
use crate::options::Population;
use crate::table::{BatchBuilder, TableSpec};
use arrow::array::RecordBatch;
use arrow::error::ArrowError;

/// When everything in the population happened: 2025-01-01 00:00, in microseconds since 1970.
pub const POPULATION_TIME: i64 = 1_735_689_600_000_000;

/// Districts for each warehouse.
pub(super) const DISTRICTS: i32 = 10;

/// How many rows there are of what depends on the population.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Items, and stock rows for each warehouse.
    pub items: i32,
    /// Customers for each district, and as many orders.
    pub customers: i32,
    /// Orders for each district that are not delivered: the last ones.
    pub undelivered: i32,
    /// Different last names; each occurs in each district.
    pub last_names: i32,
}

impl Sizes {
    /// The specification's sizes, or the small ones for tests.
    #[must_use]
    pub const fn new(population: Population) -> Self {
        match population {
            Population::Full => {
                Self { items: 100_000, customers: 3_000, undelivered: 900, last_names: 1_000 }
            }
            Population::Tiny => Self { items: 1_000, customers: 60, undelivered: 18, last_names: 20 },
        }
    }

    /// The number of the first order of a district that is not delivered.
    #[must_use]
    pub const fn first_undelivered(self) -> i32 {
        self.customers - self.undelivered + 1
    }

    /// What a district has earned, in cents: each customer has paid 10.00, which makes 30,000.00 in a full one.
    const fn district_ytd(self) -> i64 {
        self.customers as i64 * 1_000
    }
}

/// A batch and the table that it belongs to.
pub type TableBatch = (&'static TableSpec, RecordBatch);

/// Makes the population of one seed.
#[derive(Clone, Copy, Debug)]
pub struct Generator {
    sizes: Sizes,
    seed: u64,
    constants: NuRandConstants,
}

/// Which random stream a table of a warehouse draws from.
#[derive(Clone, Copy)]
enum Stream {
    Items,
    Warehouse,
    Stock,
    Districts,
    Customers,
    History,
    Orders,
}

impl Generator {
    /// The generator of a seed.
    #[must_use]
    pub fn new(sizes: Sizes, seed: u64) -> Self {
        Self { sizes, seed, constants: NuRandConstants::new(seed) }
    }

    fn choice(&self, stream: Stream, warehouse: i32) -> Choice {
        Choice::new(self.seed, (warehouse as u64) << 8 | stream as u64, self.constants)
    }

    /// Rows of all tables for so many warehouses, to show progress by.
    #[must_use]
    pub fn row_count(&self, warehouses: u32) -> u64 {
        let (items, customers) = (self.sizes.items as u64, self.sizes.customers as u64);
        let undelivered = self.sizes.undelivered as u64;
        let districts = DISTRICTS as u64;
        // Ten lines are the mean of five to fifteen.
        let by_district = 1 + customers * (3 + 10) + undelivered;
        items + u64::from(warehouses) * (1 + items + districts * by_district)
    }

    /// The items, which all warehouses share.
    ///
    /// # Errors
    /// If Arrow refuses the batch.
    pub fn items(&self) -> Result<TableBatch, ArrowError> {
        let mut choice = self.choice(Stream::Items, 0);
        let mut rows = BatchBuilder::new(&ITEM, self.sizes.items as usize);
        let text = &mut String::new();
        for item in 1..=self.sizes.items {
            rows.int(item);
            rows.int(choice.uniform(1, 10_000));
            rows.text(choice.letters(text, 14, 24));
            rows.decimal(i64::from(choice.uniform(100, 10_000)));
            rows.text(choice.data(text));
        }
        Ok((&ITEM, rows.finish()?))
    }

    /// All batches of one warehouse, handed to `each` in an order in which they may be loaded.
    ///
    /// # Errors
    /// What `each` returns, or what Arrow says.
    pub fn warehouse<E: From<ArrowError>>(
        &self,
        warehouse: i32,
        mut each: impl FnMut(TableBatch) -> Result<(), E>,
    ) -> Result<(), E> {
        each(self.warehouse_row(warehouse)?)?;
        each(self.stock(warehouse)?)?;
        each(self.districts(warehouse)?)?;
        each(self.customers(warehouse)?)?;
        each(self.history(warehouse)?)?;
        self.orders(warehouse)?.into_iter().try_for_each(each)
    }

    fn warehouse_row(&self, warehouse: i32) -> Result<TableBatch, ArrowError> {
        let mut choice = self.choice(Stream::Warehouse, warehouse);
        let mut rows = BatchBuilder::new(&WAREHOUSE, 1);
        let text = &mut String::new();
        rows.int(warehouse);
        rows.text(choice.letters(text, 6, 10));
        push_address(&mut rows, &mut choice, text);
        rows.decimal(i64::from(choice.uniform(0, 2_000)));
        rows.decimal(i64::from(DISTRICTS) * self.sizes.district_ytd());
        Ok((&WAREHOUSE, rows.finish()?))
    }

    fn stock(&self, warehouse: i32) -> Result<TableBatch, ArrowError> {
        let mut choice = self.choice(Stream::Stock, warehouse);
        let mut rows = BatchBuilder::new(&STOCK, self.sizes.items as usize);
        let text = &mut String::new();
        for item in 1..=self.sizes.items {
            rows.int(item);
            rows.int(warehouse);
            rows.int(choice.uniform(10, 100));
            for _ in 0..DISTRICTS {
                rows.text(choice.letters(text, 24, 24));
            }
            rows.int(0);
            rows.int(0);
            rows.int(0);
            rows.text(choice.data(text));
        }
        Ok((&STOCK, rows.finish()?))
    }

    fn districts(&self, warehouse: i32) -> Result<TableBatch, ArrowError> {
        let mut choice = self.choice(Stream::Districts, warehouse);
        let mut rows = BatchBuilder::new(&DISTRICT, DISTRICTS as usize);
        let text = &mut String::new();
        for district in 1..=DISTRICTS {
            rows.int(district);
            rows.int(warehouse);
            rows.text(choice.letters(text, 6, 10));
            push_address(&mut rows, &mut choice, text);
            rows.decimal(i64::from(choice.uniform(0, 2_000)));
            rows.decimal(self.sizes.district_ytd());
            rows.int(self.sizes.customers + 1);
        }
        Ok((&DISTRICT, rows.finish()?))
    }

    fn customers(&self, warehouse: i32) -> Result<TableBatch, ArrowError> {
        let mut choice = self.choice(Stream::Customers, warehouse);
        let mut rows = BatchBuilder::new(&CUSTOMER, (DISTRICTS * self.sizes.customers) as usize);
        let text = &mut String::new();
        for district in 1..=DISTRICTS {
            for customer in 1..=self.sizes.customers {
                let name = if customer <= self.sizes.last_names {
                    customer - 1
                } else {
                    choice.last_name_loaded(self.sizes.last_names)
                };
                rows.int(customer);
                rows.int(district);
                rows.int(warehouse);
                rows.text(choice.letters(text, 8, 16));
                rows.text("OE");
                rows.text(&last_name(name));
                push_address(&mut rows, &mut choice, text);
                rows.text(choice.digits(text, 16, 16));
                rows.timestamp(Some(POPULATION_TIME));
                rows.text(if choice.happens(10) { "BC" } else { "GC" });
                rows.decimal(5_000_000);
                rows.decimal(i64::from(choice.uniform(0, 5_000)));
                rows.decimal(-1_000);
                rows.decimal(1_000);
                rows.int(1);
                rows.int(0);
                rows.text(choice.letters(text, 300, 500));
            }
        }
        Ok((&CUSTOMER, rows.finish()?))
    }

    fn history(&self, warehouse: i32) -> Result<TableBatch, ArrowError> {
        let mut choice = self.choice(Stream::History, warehouse);
        let count = DISTRICTS * self.sizes.customers;
        let mut rows = BatchBuilder::new(&HISTORY, count as usize);
        let text = &mut String::new();
        let mut number = i64::from(warehouse - 1) * i64::from(count);
        for district in 1..=DISTRICTS {
            for customer in 1..=self.sizes.customers {
                number += 1;
                rows.bigint(number);
                rows.int(customer);
                rows.int(district);
                rows.int(warehouse);
                rows.int(district);
                rows.int(warehouse);
                rows.timestamp(Some(POPULATION_TIME));
                rows.decimal(1_000);
                rows.text(choice.letters(text, 12, 24));
            }
        }
        Ok((&HISTORY, rows.finish()?))
    }

    fn orders(&self, warehouse: i32) -> Result<Vec<TableBatch>, ArrowError> {
        let mut choice = self.choice(Stream::Orders, warehouse);
        let count = (DISTRICTS * self.sizes.customers) as usize;
        let mut orders = BatchBuilder::new(&ORDERS, count);
        let mut new_orders = BatchBuilder::new(&NEW_ORDER, (DISTRICTS * self.sizes.undelivered) as usize);
        let mut lines = BatchBuilder::new(&ORDER_LINE, count * 10);
        for district in 1..=DISTRICTS {
            let customers = choice.permutation(self.sizes.customers);
            for (order, customer) in (1..).zip(customers) {
                let delivered = order < self.sizes.first_undelivered();
                let line_count = choice.uniform(5, 15);
                orders.int(order);
                orders.int(district);
                orders.int(warehouse);
                orders.int(customer);
                orders.timestamp(Some(POPULATION_TIME));
                orders.int_or_null(delivered.then(|| choice.uniform(1, 10)));
                orders.int(line_count);
                orders.int(1);
                if !delivered {
                    new_orders.int(order);
                    new_orders.int(district);
                    new_orders.int(warehouse);
                }
                let head = OrderHead { order, district, warehouse, delivered };
                self.push_lines(&mut lines, &mut choice, head, line_count);
            }
        }
        Ok(vec![
            (&ORDERS, orders.finish()?),
            (&NEW_ORDER, new_orders.finish()?),
            (&ORDER_LINE, lines.finish()?),
        ])
    }

    fn push_lines(&self, lines: &mut BatchBuilder, choice: &mut Choice, head: OrderHead, count: i32) {
        let text = &mut String::new();
        for number in 1..=count {
            lines.int(head.order);
            lines.int(head.district);
            lines.int(head.warehouse);
            lines.int(number);
            lines.int(choice.uniform(1, self.sizes.items));
            lines.int(head.warehouse);
            lines.timestamp(head.delivered.then_some(POPULATION_TIME));
            lines.int(5);
            lines.decimal(if head.delivered { 0 } else { i64::from(choice.uniform(1, 999_999)) });
            lines.text(choice.letters(text, 24, 24));
        }
    }
}

#[derive(Clone, Copy)]
struct OrderHead {
    order: i32,
    district: i32,
    warehouse: i32,
    delivered: bool,
}

/// Two streets, city, state, zip: the five columns that warehouses, districts and customers share.
fn push_address(rows: &mut BatchBuilder, choice: &mut Choice, text: &mut String) {
    rows.text(choice.letters(text, 10, 20));
    rows.text(choice.letters(text, 10, 20));
    rows.text(choice.letters(text, 10, 20));
    rows.text(choice.letters(text, 2, 2));
    rows.text(choice.zip(text));
}

#[cfg(test)]
mod tests;
