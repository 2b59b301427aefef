// SPDX-License-Identifier: Apache-2.0
//! The five transactions through the typed API: keys, rows and index ranges.

use super::execution::{
    BadCreditPayment, Execution, Executor, HistoryIds, bad_credit_data, is_brand, middle, order_total,
    stock_after,
};
use super::input::{CustomerBy, Delivery, Input, NewOrder, OrderItem, OrderStatus, Payment, StockLevel};
use super::population::DISTRICTS;
use super::schema::{CUSTOMER, DISTRICT, HISTORY, ITEM, NEW_ORDER, ORDER_LINE, ORDERS, STOCK, WAREHOUSE};
use crate::board::Outcome;
use crate::engine::{key, now_microseconds};
use crate::error::BenchError;
use coeval::{
    Database, Direction, Error, Isolation, Key, KeyRange, KeyWriter, Row, RowRef, SpaceId, Table,
    Transaction, Value, ValueRef,
};
use std::hint::black_box;
use std::ops::Bound;

/// The tables that transactions touch.
struct Tables {
    warehouse: Table,
    district: Table,
    customer: Table,
    history: Table,
    new_order: Table,
    orders: Table,
    order_line: Table,
    item: Table,
    stock: Table,
    customer_name: SpaceId,
    orders_customer: SpaceId,
}

impl Tables {
    fn open(db: &Database) -> Result<Self, BenchError> {
        let customer = db.table(CUSTOMER.name)?;
        let orders = db.table(ORDERS.name)?;
        Ok(Self {
            customer_name: customer.index(CUSTOMER.indexes[0].0)?,
            orders_customer: orders.index(ORDERS.indexes[0].0)?,
            warehouse: db.table(WAREHOUSE.name)?,
            district: db.table(DISTRICT.name)?,
            history: db.table(HISTORY.name)?,
            new_order: db.table(NEW_ORDER.name)?,
            order_line: db.table(ORDER_LINE.name)?,
            item: db.table(ITEM.name)?,
            stock: db.table(STOCK.name)?,
            customer,
            orders,
        })
    }
}

/// Runs transactions with `db.transaction(..)`.
pub(crate) struct TypedExecutor<'d> {
    db: &'d Database,
    isolation: Isolation,
    tables: Tables,
    history_ids: HistoryIds,
}

impl<'d> TypedExecutor<'d> {
    /// An executor for one terminal thread.
    pub(crate) fn new(
        db: &'d Database,
        isolation: Isolation,
        history_ids: HistoryIds,
    ) -> Result<Self, BenchError> {
        Ok(Self { db, isolation, tables: Tables::open(db)?, history_ids })
    }
}

/// Why a closure gives up.
enum Stop {
    /// The specification asks for it.
    RolledBack,
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Executor for TypedExecutor<'_> {
    fn execute(&mut self, input: &Input) -> Result<Execution, BenchError> {
        let tables = &self.tables;
        let history_id = self.history_ids.next();
        let mut attempts = 0;
        let ended = self.db.transaction(self.isolation, |tx| {
            attempts += 1;
            match input {
                Input::NewOrder(order) => {
                    black_box(new_order(tx, tables, order)?.ok_or(Stop::RolledBack)?);
                }
                Input::Payment(input) => payment(tx, tables, input, history_id)?,
                Input::OrderStatus(input) => order_status(tx, tables, input)?,
                Input::Delivery(input) => delivery(tx, tables, *input)?,
                Input::StockLevel(input) => {
                    black_box(stock_level(tx, tables, *input)?);
                }
            }
            Ok(())
        });
        let outcome = match ended {
            Ok(()) => Outcome::Committed,
            Err(Stop::RolledBack) => Outcome::RolledBack,
            Err(Stop::Failed(error)) => return Err(error.into()),
        };
        Ok(Execution { outcome, conflicts: attempts - 1 })
    }
}

/// The row of a key that the population promises.
#[inline]
fn row<'t>(tx: &'t Transaction, table: &Table, key: &Key) -> Result<RowRef<'t>, Error> {
    Ok(tx.get(table, key)?.expect("the population has this row and no transaction deletes it"))
}

#[inline]
fn int(row: &RowRef<'_>, column: usize) -> i32 {
    match row.get(column) {
        ValueRef::Int32(value) => value,
        other => panic!("the schema says that the column is an int, found {other}"),
    }
}

#[inline]
fn decimal(row: &RowRef<'_>, column: usize) -> i64 {
    let value = row.get(column).as_decimal().and_then(|value| i64::try_from(value).ok());
    value.expect("the schema says that the column is a numeric of at most 12 digits")
}

#[inline]
fn text<'r>(row: &RowRef<'r>, column: usize) -> &'r str {
    row.get(column).as_str().expect("the schema says that the column is text")
}

fn money(cents: i64) -> Value {
    Value::Decimal(i128::from(cents))
}

/// What the order costs and how many of its items are of a brand; `None` if an item does not exist: the transaction
/// must roll back.
fn new_order(
    tx: &mut Transaction,
    tables: &Tables,
    input: &NewOrder,
) -> Result<Option<(i128, usize)>, Error> {
    let home = input.warehouse;
    let warehouse_tax = decimal(&row(tx, &tables.warehouse, &key(&[home]))?, at::W_TAX);
    let district_key = key(&[home, input.district]);
    let district = row(tx, &tables.district, &district_key)?;
    let (number, district_tax) = (int(&district, at::D_NEXT_O_ID), decimal(&district, at::D_TAX));
    let advanced = district.with(&[(at::D_NEXT_O_ID, (number + 1).into())]);
    tx.update(&tables.district, &district_key, advanced)?;
    let customer_key = key(&[home, input.district, input.customer]);
    let customer = row(tx, &tables.customer, &customer_key)?;
    let discount = decimal(&customer, at::C_DISCOUNT);
    black_box((text(&customer, at::C_LAST), text(&customer, at::C_CREDIT)));

    let now = now_microseconds();
    let order = tables.orders.row(&[
        number.into(),
        input.district.into(),
        home.into(),
        input.customer.into(),
        now.into(),
        Value::Null,
        (input.items.len() as i32).into(),
        i32::from(input.is_all_local()).into(),
    ])?;
    tx.insert(&tables.orders, order)?;
    let undelivered = tables.new_order.row(&[number.into(), input.district.into(), home.into()])?;
    tx.insert(&tables.new_order, undelivered)?;
    let mut sum = 0;
    let mut brands = 0;
    for (line, item) in (1..).zip(&input.items) {
        let Some((amount, brand)) = order_line(tx, tables, input, item, (number, line))? else {
            return Ok(None);
        };
        sum += amount;
        brands += usize::from(brand);
    }
    Ok(Some((order_total(sum, discount, warehouse_tax, district_tax), brands)))
}

/// Takes one item from stock and writes its line: its amount in cents, and whether it is of a brand. `None` if
/// the item does not exist. `place` is the order's number and the line's number in it.
fn order_line(
    tx: &mut Transaction,
    tables: &Tables,
    input: &NewOrder,
    ordered: &OrderItem,
    place: (i32, i32),
) -> Result<Option<(i64, bool)>, Error> {
    let &OrderItem { item: item_id, supply_warehouse, quantity } = ordered;
    let Some(item) = tx.get(&tables.item, &key(&[item_id]))? else { return Ok(None) };
    let stock_key = key(&[supply_warehouse, item_id]);
    let stock = row(tx, &tables.stock, &stock_key)?;
    let amount = decimal(&item, at::I_PRICE) * i64::from(quantity);
    let brand = is_brand(text(&item, at::I_DATA), text(&stock, at::S_DATA));
    let remote = i32::from(supply_warehouse != input.warehouse);
    let taken = stock.with(&[
        (at::S_QUANTITY, stock_after(int(&stock, at::S_QUANTITY), quantity).into()),
        (at::S_YTD, (int(&stock, at::S_YTD) + quantity).into()),
        (at::S_ORDER_CNT, (int(&stock, at::S_ORDER_CNT) + 1).into()),
        (at::S_REMOTE_CNT, (int(&stock, at::S_REMOTE_CNT) + remote).into()),
    ]);
    let district_info = text(&stock, at::S_DIST_01 + input.district as usize - 1);
    let line = tables.order_line.row(&[
        place.0.into(),
        input.district.into(),
        input.warehouse.into(),
        place.1.into(),
        item_id.into(),
        supply_warehouse.into(),
        Value::Null,
        quantity.into(),
        money(amount),
        district_info.into(),
    ])?;
    tx.update(&tables.stock, &stock_key, taken)?;
    tx.insert(&tables.order_line, line)?;
    Ok(Some((amount, brand)))
}

/// The primary key of the customer that is meant.
fn find_customer(
    tx: &Transaction,
    tables: &Tables,
    warehouse: i32,
    district: i32,
    by: &CustomerBy,
) -> Result<Key, Error> {
    match by {
        CustomerBy::Number(number) => Ok(key(&[warehouse, district, *number])),
        CustomerBy::LastName(name) => {
            let mut prefix = KeyWriter::new();
            prefix.push_nullable(ValueRef::Int32(warehouse));
            prefix.push_nullable(ValueRef::Int32(district));
            prefix.push_nullable(ValueRef::Text(name));
            let range = KeyRange::prefix(prefix.as_slice());
            let entries =
                tx.scan_index(&tables.customer, tables.customer_name, &range, Direction::Forward)?;
            let keys = entries.map(|entry| entry.map(|entry| entry.primary_key));
            let mut keys: Vec<Key> = keys.collect::<Result<_, _>>()?;
            Ok(keys.swap_remove(middle(keys.len())))
        }
    }
}

fn payment(tx: &mut Transaction, tables: &Tables, input: &Payment, history_id: i64) -> Result<(), Error> {
    let warehouse_key = key(&[input.warehouse]);
    let warehouse = row(tx, &tables.warehouse, &warehouse_key)?;
    let mut data = text(&warehouse, at::W_NAME).to_owned();
    let paid = warehouse.with(&[(at::W_YTD, money(decimal(&warehouse, at::W_YTD) + input.amount))]);
    tx.update(&tables.warehouse, &warehouse_key, paid)?;
    let district_key = key(&[input.warehouse, input.district]);
    let district = row(tx, &tables.district, &district_key)?;
    data.push_str("    ");
    data.push_str(text(&district, at::D_NAME));
    let paid = district.with(&[(at::D_YTD, money(decimal(&district, at::D_YTD) + input.amount))]);
    tx.update(&tables.district, &district_key, paid)?;

    let (warehouse, district) = (input.customer_warehouse, input.customer_district);
    let customer_key = find_customer(tx, tables, warehouse, district, &input.customer)?;
    let customer = row(tx, &tables.customer, &customer_key)?;
    let number = int(&customer, at::C_ID);
    let paid = customer_after_payment(&customer, input);
    tx.update(&tables.customer, &customer_key, paid)?;
    let history = tables.history.row(&[
        history_id.into(),
        number.into(),
        district.into(),
        warehouse.into(),
        input.district.into(),
        input.warehouse.into(),
        now_microseconds().into(),
        money(input.amount),
        data.into(),
    ])?;
    tx.insert(&tables.history, history)?;
    Ok(())
}

fn customer_after_payment(customer: &RowRef<'_>, input: &Payment) -> Row {
    let balance = (at::C_BALANCE, money(decimal(customer, at::C_BALANCE) - input.amount));
    let paid = (at::C_YTD_PAYMENT, money(decimal(customer, at::C_YTD_PAYMENT) + input.amount));
    let count = (at::C_PAYMENT_CNT, (int(customer, at::C_PAYMENT_CNT) + 1).into());
    if text(customer, at::C_CREDIT) != "BC" {
        return customer.with(&[balance, paid, count]);
    }
    let payment = BadCreditPayment {
        customer: int(customer, at::C_ID),
        customer_district: input.customer_district,
        customer_warehouse: input.customer_warehouse,
        district: input.district,
        warehouse: input.warehouse,
        amount: input.amount,
    };
    let data = bad_credit_data(&payment, text(customer, at::C_DATA));
    customer.with(&[balance, paid, count, (at::C_DATA, data.into())])
}

fn order_status(tx: &mut Transaction, tables: &Tables, input: &OrderStatus) -> Result<(), Error> {
    let &OrderStatus { warehouse, district, ref customer } = input;
    let customer_key = find_customer(tx, tables, warehouse, district, customer)?;
    let customer = row(tx, &tables.customer, &customer_key)?;
    let number = int(&customer, at::C_ID);
    black_box((decimal(&customer, at::C_BALANCE), text(&customer, at::C_FIRST), text(&customer, at::C_LAST)));
    let mut prefix = KeyWriter::new();
    for part in [warehouse, district, number] {
        prefix.push_nullable(ValueRef::Int32(part));
    }
    let range = KeyRange::prefix(prefix.as_slice());
    let mut newest = tx.scan_index(&tables.orders, tables.orders_customer, &range, Direction::Backward)?;
    let order_key = newest.next().expect("every customer has an order")?.primary_key;
    let order = row(tx, &tables.orders, &order_key)?;
    black_box((order.get(at::O_ENTRY_D), order.get(at::O_CARRIER_ID)));
    // Lines carry their order's key in front of their own.
    let of_order = KeyRange::prefix(order_key.as_slice());
    for line in tx.scan(&tables.order_line, &of_order, Direction::Forward)? {
        let (_, line) = line?;
        black_box((int(&line, at::OL_I_ID), int(&line, at::OL_SUPPLY_W_ID), int(&line, at::OL_QUANTITY)));
        black_box((decimal(&line, at::OL_AMOUNT), line.get(at::OL_DELIVERY_D)));
    }
    Ok(())
}

fn delivery(tx: &mut Transaction, tables: &Tables, input: Delivery) -> Result<(), Error> {
    let now = now_microseconds();
    for district in 1..=DISTRICTS {
        let of_district = KeyRange::prefix(key(&[input.warehouse, district]).as_slice());
        let oldest = tx.scan(&tables.new_order, &of_district, Direction::Forward)?.next();
        let Some((order_key, _)) = oldest.transpose()? else { continue };
        tx.delete(&tables.new_order, &order_key)?;
        let order = row(tx, &tables.orders, &order_key)?;
        let customer = int(&order, at::O_C_ID);
        let delivered = order.with(&[(at::O_CARRIER_ID, input.carrier.into())]);
        tx.update(&tables.orders, &order_key, delivered)?;
        let mut sum = 0;
        let mut lines = Vec::new();
        let of_order = KeyRange::prefix(order_key.as_slice());
        for line in tx.scan(&tables.order_line, &of_order, Direction::Forward)? {
            let (line_key, line) = line?;
            sum += decimal(&line, at::OL_AMOUNT);
            lines.push((line_key, line.with(&[(at::OL_DELIVERY_D, now.into())])));
        }
        for (line_key, line) in lines {
            tx.update(&tables.order_line, &line_key, line)?;
        }
        let customer_key = key(&[input.warehouse, district, customer]);
        let customer = row(tx, &tables.customer, &customer_key)?;
        let billed = customer.with(&[
            (at::C_BALANCE, money(decimal(&customer, at::C_BALANCE) + sum)),
            (at::C_DELIVERY_CNT, (int(&customer, at::C_DELIVERY_CNT) + 1).into()),
        ]);
        tx.update(&tables.customer, &customer_key, billed)?;
    }
    Ok(())
}

/// How many different items of the last twenty orders run low.
fn stock_level(tx: &mut Transaction, tables: &Tables, input: StockLevel) -> Result<usize, Error> {
    let &StockLevel { warehouse, district, threshold } = &input;
    let next = int(&row(tx, &tables.district, &key(&[warehouse, district]))?, at::D_NEXT_O_ID);
    let range = KeyRange {
        lower: Bound::Included(key(&[warehouse, district, next - LAST_ORDERS])),
        upper: Bound::Excluded(key(&[warehouse, district, next])),
    };
    let lines = tx.scan(&tables.order_line, &range, Direction::Forward)?;
    let mut items: Vec<i32> =
        lines.map(|line| line.map(|(_, line)| int(&line, at::OL_I_ID))).collect::<Result<_, _>>()?;
    items.sort_unstable();
    items.dedup();
    let mut low = 0;
    for item in items {
        let stock = row(tx, &tables.stock, &key(&[warehouse, item]))?;
        low += usize::from(int(&stock, at::S_QUANTITY) < threshold);
    }
    Ok(low)
}

/// How many orders StockLevel looks back (clause 2.8.2.2).
pub(crate) const LAST_ORDERS: i32 = 20;

/// Places of columns, found in the schema when this is compiled.
mod at {
    use super::{CUSTOMER, DISTRICT, ITEM, ORDER_LINE, ORDERS, STOCK, WAREHOUSE};

    pub(super) const W_NAME: usize = WAREHOUSE.column_index("w_name");
    pub(super) const W_TAX: usize = WAREHOUSE.column_index("w_tax");
    pub(super) const W_YTD: usize = WAREHOUSE.column_index("w_ytd");
    pub(super) const D_NAME: usize = DISTRICT.column_index("d_name");
    pub(super) const D_TAX: usize = DISTRICT.column_index("d_tax");
    pub(super) const D_YTD: usize = DISTRICT.column_index("d_ytd");
    pub(super) const D_NEXT_O_ID: usize = DISTRICT.column_index("d_next_o_id");
    pub(super) const C_ID: usize = CUSTOMER.column_index("c_id");
    pub(super) const C_FIRST: usize = CUSTOMER.column_index("c_first");
    pub(super) const C_LAST: usize = CUSTOMER.column_index("c_last");
    pub(super) const C_CREDIT: usize = CUSTOMER.column_index("c_credit");
    pub(super) const C_DISCOUNT: usize = CUSTOMER.column_index("c_discount");
    pub(super) const C_BALANCE: usize = CUSTOMER.column_index("c_balance");
    pub(super) const C_YTD_PAYMENT: usize = CUSTOMER.column_index("c_ytd_payment");
    pub(super) const C_PAYMENT_CNT: usize = CUSTOMER.column_index("c_payment_cnt");
    pub(super) const C_DELIVERY_CNT: usize = CUSTOMER.column_index("c_delivery_cnt");
    pub(super) const C_DATA: usize = CUSTOMER.column_index("c_data");
    pub(super) const O_C_ID: usize = ORDERS.column_index("o_c_id");
    pub(super) const O_ENTRY_D: usize = ORDERS.column_index("o_entry_d");
    pub(super) const O_CARRIER_ID: usize = ORDERS.column_index("o_carrier_id");
    pub(super) const OL_I_ID: usize = ORDER_LINE.column_index("ol_i_id");
    pub(super) const OL_SUPPLY_W_ID: usize = ORDER_LINE.column_index("ol_supply_w_id");
    pub(super) const OL_DELIVERY_D: usize = ORDER_LINE.column_index("ol_delivery_d");
    pub(super) const OL_QUANTITY: usize = ORDER_LINE.column_index("ol_quantity");
    pub(super) const OL_AMOUNT: usize = ORDER_LINE.column_index("ol_amount");
    pub(super) const I_PRICE: usize = ITEM.column_index("i_price");
    pub(super) const I_DATA: usize = ITEM.column_index("i_data");
    pub(super) const S_QUANTITY: usize = STOCK.column_index("s_quantity");
    pub(super) const S_DIST_01: usize = STOCK.column_index("s_dist_01");
    pub(super) const S_YTD: usize = STOCK.column_index("s_ytd");
    pub(super) const S_ORDER_CNT: usize = STOCK.column_index("s_order_cnt");
    pub(super) const S_REMOTE_CNT: usize = STOCK.column_index("s_remote_cnt");
    pub(super) const S_DATA: usize = STOCK.column_index("s_data");
}
