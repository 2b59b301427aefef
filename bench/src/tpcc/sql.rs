// SPDX-License-Identifier: Apache-2.0
//! The five transactions as prepared SQL statements, in whatever session.
//!
//! Statements of a transaction that do not depend on each other's answers are handed over together: a client that can
//! sends them without waiting in between.

use super::client::{Answer, Call, Client, RowAt};
use super::execution::{
    BadCreditPayment, Execution, Executor, HistoryIds, bad_credit_data, is_brand, middle, order_total,
    stock_after,
};
use super::input::{CustomerBy, Delivery, Input, NewOrder, OrderItem, OrderStatus, Payment, StockLevel};
use super::population::DISTRICTS;
use super::statements::Statement;
use super::typed::LAST_ORDERS;
use crate::board::Outcome;
use crate::engine::now_microseconds;
use crate::error::BenchError;
use coeval::Value;
use std::hint::black_box;

/// Runs transactions as SQL in a session of its own.
pub(super) struct SqlExecutor<C> {
    transactions: Transactions<C>,
    history_ids: HistoryIds,
}

impl<C: Client> SqlExecutor<C> {
    /// An executor for one terminal thread.
    pub(super) fn new(client: C, history_ids: HistoryIds) -> Self {
        Self { transactions: Transactions(client), history_ids }
    }
}

impl<C: Client> Executor for SqlExecutor<C> {
    fn execute(&mut self, input: &Input) -> Result<Execution, BenchError> {
        let history_id = self.history_ids.next();
        let mut conflicts = 0;
        loop {
            match self.transactions.attempt(input, history_id) {
                Ok(outcome) => return Ok(Execution { outcome, conflicts }),
                Err(error) if error.is_conflict() => {
                    conflicts += 1;
                    self.transactions.0.roll_back()?;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// The five transactions over a session.
struct Transactions<C>(C);

fn money(cents: i64) -> Value {
    Value::Decimal(i128::from(cents))
}

/// An answer whose first row the population promises.
fn answer<A>(answers: &mut impl Iterator<Item = A>) -> A {
    answers.next().expect("each call has an answer")
}

impl<C: Client> Transactions<C> {
    fn call(&mut self, statement: Statement, parameters: &[Value]) -> Result<C::Answer, BenchError> {
        self.0.call(statement, parameters)
    }

    fn call_all(&mut self, calls: &[Call]) -> Result<impl Iterator<Item = C::Answer> + use<C>, BenchError> {
        let answers = self.0.call_all(calls)?;
        debug_assert_eq!(answers.len(), calls.len(), "each call has an answer");
        Ok(answers.into_iter())
    }

    fn run_all(&mut self, calls: &[Call]) -> Result<(), BenchError> {
        self.0.call_all(calls)?;
        Ok(())
    }

    fn attempt(&mut self, input: &Input, history_id: i64) -> Result<Outcome, BenchError> {
        self.0.begin()?;
        match input {
            Input::NewOrder(input) => {
                if black_box(self.new_order(input)?).is_none() {
                    self.0.roll_back()?;
                    return Ok(Outcome::RolledBack);
                }
            }
            Input::Payment(input) => self.payment(input, history_id)?,
            Input::OrderStatus(input) => self.order_status(input)?,
            Input::Delivery(input) => self.delivery(*input)?,
            Input::StockLevel(input) => {
                black_box(self.stock_level(*input)?);
            }
        }
        self.0.commit()?;
        Ok(Outcome::Committed)
    }

    /// What the order costs and how many of its items are of a brand; `None` if an item does not exist.
    fn new_order(&mut self, input: &NewOrder) -> Result<Option<(i128, usize)>, BenchError> {
        let (warehouse, district) = (input.warehouse, input.district);
        // In the order of keys: terminals that wait for each other's stock then never wait in a circle.
        let mut lines: Vec<(i32, &OrderItem)> = (1..).zip(&input.items).collect();
        lines.sort_by_key(|(_, item)| (item.supply_warehouse, item.item));
        let mut calls = vec![
            // First what it may have to wait for: its snapshot is then one from behind the wait.
            (Statement::DistrictOrder, vec![warehouse.into(), district.into()]),
            (Statement::WarehouseTax, vec![warehouse.into()]),
            (Statement::CustomerDiscount, vec![warehouse.into(), district.into(), input.customer.into()]),
        ];
        calls.extend(lines.iter().map(|(_, line)| (Statement::Item, vec![line.item.into()])));
        let mut answers = self.call_all(&calls)?;
        let of_district = answer(&mut answers);
        let (number, district_tax) = (of_district.first().int(0), of_district.first().number(1));
        let warehouse_tax = answer(&mut answers).first().number(0);
        let discount = answer(&mut answers).first().number(0);
        let found: Vec<_> = lines.into_iter().zip(answers).filter(|(_, item)| item.row_count() > 0).collect();
        let ordered: Vec<&OrderItem> = found.iter().map(|((_, ordered), _)| *ordered).collect();
        let stocks = self.place_order(input, number, &ordered)?;
        if found.len() < input.items.len() {
            return Ok(None);
        }
        let (mut sum, mut brands) = (0, 0);
        let mut writes = Vec::with_capacity(2 * found.len());
        for (((line, ordered), item), stock) in found.iter().zip(stocks) {
            let (item, stock) = (item.first(), stock.first());
            let amount = item.number(0) * i64::from(ordered.quantity);
            writes.extend(order_line(input, ordered, (number, *line), amount, &stock));
            sum += amount;
            brands += usize::from(is_brand(item.text(1), stock.text(4)));
        }
        self.run_all(&writes)?;
        Ok(Some((order_total(sum, discount, warehouse_tax, district_tax), brands)))
    }

    /// Writes an order without its lines and reads what is in stock for them.
    fn place_order(
        &mut self,
        input: &NewOrder,
        number: i32,
        lines: &[&OrderItem],
    ) -> Result<impl Iterator<Item = C::Answer> + use<C>, BenchError> {
        let (warehouse, district) = (input.warehouse, input.district);
        let count = i32::try_from(input.items.len()).expect("an order has at most fifteen lines");
        let order = vec![
            number.into(),
            district.into(),
            warehouse.into(),
            input.customer.into(),
            now_microseconds().into(),
            count.into(),
            i32::from(input.is_all_local()).into(),
        ];
        let mut calls = vec![
            (Statement::AdvanceDistrict, vec![(number + 1).into(), warehouse.into(), district.into()]),
            (Statement::InsertOrder, order),
            (Statement::InsertNewOrder, vec![number.into(), district.into(), warehouse.into()]),
        ];
        let stock = Statement::stock_of(district);
        calls.extend(lines.iter().map(|line| (stock, vec![line.supply_warehouse.into(), line.item.into()])));
        Ok(self.call_all(&calls)?.skip(3))
    }

    /// Where the number of the customer that is meant has to be asked for.
    fn asked_customer(warehouse: i32, district: i32, by: &CustomerBy) -> Option<Call> {
        match by {
            CustomerBy::Number(_) => None,
            CustomerBy::LastName(name) => {
                let parameters = vec![warehouse.into(), district.into(), Value::Text(name.as_str().into())];
                Some((Statement::CustomersOfName, parameters))
            }
        }
    }

    /// The number of the customer that is meant, from what was asked.
    fn found_customer(by: &CustomerBy, answer: Option<&C::Answer>) -> i32 {
        match (by, answer) {
            (CustomerBy::Number(number), _) => *number,
            (CustomerBy::LastName(_), Some(rows)) => {
                let numbers: Vec<i32> = rows.rows().map(|row| row.int(0)).collect();
                numbers[middle(numbers.len())]
            }
            (CustomerBy::LastName(_), None) => unreachable!("a name has been asked for"),
        }
    }

    fn payment(&mut self, input: &Payment, history_id: i64) -> Result<(), BenchError> {
        let (warehouse, district, by) = (input.warehouse, input.district, &input.customer);
        let mut calls = vec![
            (Statement::WarehousePaid, vec![warehouse.into()]),
            (Statement::DistrictPaid, vec![warehouse.into(), district.into()]),
        ];
        calls.extend(Self::asked_customer(input.customer_warehouse, input.customer_district, by));
        let mut answers = self.call_all(&calls)?;
        let (of_warehouse, of_district) = (answer(&mut answers), answer(&mut answers));
        let customer = Self::found_customer(by, answers.next().as_ref());
        let (of_warehouse, of_district) = (of_warehouse.first(), of_district.first());
        let key = [input.customer_warehouse.into(), input.customer_district.into(), customer.into()];
        let paid = |row: &RowAt<'_, C::Answer>| money(row.number(1) + input.amount);
        let answers = self.call_all(&[
            (Statement::PayWarehouse, vec![paid(&of_warehouse), warehouse.into()]),
            (Statement::PayDistrict, vec![paid(&of_district), warehouse.into(), district.into()]),
            (Statement::CustomerPaid, key.to_vec()),
        ])?;
        let pay = self.paying_customer(input, customer, key, &answer(&mut answers.skip(2)))?;
        let history = vec![
            history_id.into(),
            customer.into(),
            input.customer_district.into(),
            input.customer_warehouse.into(),
            district.into(),
            warehouse.into(),
            now_microseconds().into(),
            money(input.amount),
            format!("{}    {}", of_warehouse.text(0), of_district.text(0)).into(),
        ];
        self.run_all(&[pay, (Statement::InsertHistory, history)])
    }

    /// What takes the payment from a customer, of which this was read.
    fn paying_customer(
        &mut self,
        input: &Payment,
        customer: i32,
        key: [Value; 3],
        read: &C::Answer,
    ) -> Result<Call, BenchError> {
        let row = read.first();
        let mut parameters = vec![
            money(row.number(1) - input.amount),
            money(row.number(2) + input.amount),
            (row.int(3) + 1).into(),
        ];
        if row.text(0) != "BC" {
            parameters.extend(key);
            return Ok((Statement::PayCustomer, parameters));
        }
        let payment = BadCreditPayment {
            customer,
            customer_district: input.customer_district,
            customer_warehouse: input.customer_warehouse,
            district: input.district,
            warehouse: input.warehouse,
            amount: input.amount,
        };
        let old = self.call(Statement::CustomerData, &key)?;
        parameters.push(bad_credit_data(&payment, old.first().text(0)).into());
        parameters.extend(key);
        Ok((Statement::PayBadCustomer, parameters))
    }

    fn order_status(&mut self, input: &OrderStatus) -> Result<(), BenchError> {
        let &OrderStatus { warehouse, district, ref customer } = input;
        let named = match Self::asked_customer(warehouse, district, customer) {
            Some((statement, parameters)) => Some(self.call(statement, &parameters)?),
            None => None,
        };
        let customer = Self::found_customer(customer, named.as_ref());
        let key = vec![warehouse.into(), district.into(), customer.into()];
        let mut answers =
            self.call_all(&[(Statement::CustomerBalance, key.clone()), (Statement::NewestOrder, key)])?;
        black_box(answer(&mut answers).first().number(0));
        let order = answer(&mut answers).first().int(0);
        let lines = self.call(Statement::OrderLines, &[warehouse.into(), district.into(), order.into()])?;
        black_box(lines.rows().map(|line| line.number(3)).sum::<i64>());
        Ok(())
    }

    fn delivery(&mut self, input: Delivery) -> Result<(), BenchError> {
        let warehouse = Value::from(input.warehouse);
        let now = Value::from(now_microseconds());
        let oldest: Vec<Call> = (1..=DISTRICTS)
            .map(|district| (Statement::OldestNewOrder, vec![warehouse.clone(), district.into()]))
            .collect();
        let answers = self.call_all(&oldest)?;
        let orders: Vec<(i32, i32)> = (1..=DISTRICTS)
            .zip(answers)
            .filter_map(|(district, oldest)| oldest.rows().next().map(|row| (district, row.int(0))))
            .collect();
        let mut calls = Vec::new();
        for &(district, order) in &orders {
            let key = vec![warehouse.clone(), district.into(), order.into()];
            let with = |value: Value| [vec![value], key.clone()].concat();
            calls.push((Statement::CarryOrder, with(input.carrier.into())));
            calls.push((Statement::DeliverLines, with(now.clone())));
            calls.push((Statement::DeleteNewOrder, key.clone()));
            calls.push((Statement::OrderCustomer, key.clone()));
            calls.push((Statement::LineAmounts, key));
        }
        let mut answers = self.call_all(&calls)?;
        let mut bills = Vec::with_capacity(orders.len());
        for &(district, _) in &orders {
            let mut of_order = answers.by_ref().skip(3);
            let customer = answer(&mut of_order).first().int(0);
            let sum: i64 = answer(&mut of_order).rows().map(|line| line.number(0)).sum();
            bills.push((vec![warehouse.clone(), district.into(), customer.into()], sum));
        }
        let calls: Vec<Call> =
            bills.iter().map(|(key, _)| (Statement::CustomerBilled, key.clone())).collect();
        let billed = self.call_all(&calls)?;
        let bill = |((key, sum), billed): ((Vec<Value>, i64), C::Answer)| {
            let billed = billed.first();
            let values = vec![money(billed.number(0) + sum), (billed.int(1) + 1).into()];
            (Statement::BillCustomer, [values, key].concat())
        };
        let calls: Vec<Call> = bills.into_iter().zip(billed).map(bill).collect();
        self.run_all(&calls)
    }

    /// How many different items of the last twenty orders run low.
    fn stock_level(&mut self, input: StockLevel) -> Result<usize, BenchError> {
        let (warehouse, district) = (Value::from(input.warehouse), Value::from(input.district));
        let next = self.call(Statement::DistrictNext, &[warehouse.clone(), district.clone()])?.first().int(0);
        let range = [warehouse.clone(), district, (next - LAST_ORDERS).into(), next.into()];
        let lines = self.call(Statement::RecentItems, &range)?;
        let mut items: Vec<i32> = lines.rows().map(|line| line.int(0)).collect();
        items.sort_unstable();
        items.dedup();
        let calls: Vec<Call> = items
            .into_iter()
            .map(|item| (Statement::StockQuantity, vec![warehouse.clone(), item.into()]))
            .collect();
        let stocks = self.call_all(&calls)?;
        Ok(stocks.filter(|stock| stock.first().int(0) < input.threshold).count())
    }
}

/// What takes one item from stock and writes its line. `place` is the order's number and the line's number in it.
fn order_line<A: Answer>(
    input: &NewOrder,
    ordered: &OrderItem,
    place: (i32, i32),
    amount: i64,
    stock: &RowAt<'_, A>,
) -> [Call; 2] {
    let &OrderItem { item, supply_warehouse, quantity } = ordered;
    let remote = i32::from(supply_warehouse != input.warehouse);
    let taken = vec![
        stock_after(stock.int(0), quantity).into(),
        (stock.int(1) + quantity).into(),
        (stock.int(2) + 1).into(),
        (stock.int(3) + remote).into(),
        supply_warehouse.into(),
        item.into(),
    ];
    let line = vec![
        place.0.into(),
        input.district.into(),
        input.warehouse.into(),
        place.1.into(),
        item.into(),
        supply_warehouse.into(),
        quantity.into(),
        money(amount),
        stock.text(5).into(),
    ];
    [(Statement::TakeStock, taken), (Statement::InsertOrderLine, line)]
}
