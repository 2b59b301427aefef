// SPDX-License-Identifier: Apache-2.0
//! The five transactions as prepared SQL statements, in whatever session.

use super::client::{Answer, Client};
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

impl<C: Client> Transactions<C> {
    fn query(&mut self, statement: Statement, parameters: &[Value]) -> Result<C::Answer, BenchError> {
        self.0.query(statement, parameters)
    }

    fn run(&mut self, statement: Statement, parameters: &[Value]) -> Result<(), BenchError> {
        self.0.run(statement, parameters)
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
        let (warehouse, district) = (Value::from(input.warehouse), Value::from(input.district));
        let of_district = [warehouse.clone(), district.clone()];
        // First what it may have to wait for: its snapshot is then one from behind the wait.
        let rows = self.query(Statement::DistrictOrder, &of_district)?;
        let (number, district_tax) = (rows.first().int(0), rows.first().number(1));
        let warehouse_tax =
            self.query(Statement::WarehouseTax, std::slice::from_ref(&warehouse))?.first().number(0);
        self.run(Statement::AdvanceDistrict, &[(number + 1).into(), warehouse.clone(), district.clone()])?;
        let of_customer = [warehouse.clone(), district.clone(), input.customer.into()];
        let customer = self.query(Statement::CustomerDiscount, &of_customer)?;
        let discount = customer.first().number(0);
        let now = now_microseconds();
        let lines = i32::try_from(input.items.len()).expect("an order has at most fifteen lines");
        self.run(
            Statement::InsertOrder,
            &[
                number.into(),
                district.clone(),
                warehouse.clone(),
                input.customer.into(),
                now.into(),
                lines.into(),
                i32::from(input.is_all_local()).into(),
            ],
        )?;
        self.run(Statement::InsertNewOrder, &[number.into(), district, warehouse])?;
        let (mut sum, mut brands) = (0, 0);
        // In the order of keys: terminals that wait for each other's stock then never wait in a circle.
        let mut lines: Vec<(i32, &OrderItem)> = (1..).zip(&input.items).collect();
        lines.sort_by_key(|(_, item)| (item.supply_warehouse, item.item));
        for (line, item) in lines {
            let Some((amount, brand)) = self.order_line(input, item, (number, line))? else {
                return Ok(None);
            };
            sum += amount;
            brands += usize::from(brand);
        }
        Ok(Some((order_total(sum, discount, warehouse_tax, district_tax), brands)))
    }

    /// Takes one item from stock and writes its line. `None` if the item does not exist. `place` is the order's
    /// number and the line's number in it.
    fn order_line(
        &mut self,
        input: &NewOrder,
        ordered: &OrderItem,
        place: (i32, i32),
    ) -> Result<Option<(i64, bool)>, BenchError> {
        let &OrderItem { item, supply_warehouse, quantity } = ordered;
        let items = self.query(Statement::Item, &[item.into()])?;
        let Some(found) = items.rows().next() else { return Ok(None) };
        let amount = found.number(0) * i64::from(quantity);
        let stock =
            self.query(Statement::stock_of(input.district), &[supply_warehouse.into(), item.into()])?;
        let stock = stock.first();
        let remote = i32::from(supply_warehouse != input.warehouse);
        self.run(
            Statement::TakeStock,
            &[
                stock_after(stock.int(0), quantity).into(),
                (stock.int(1) + quantity).into(),
                (stock.int(2) + 1).into(),
                (stock.int(3) + remote).into(),
                supply_warehouse.into(),
                item.into(),
            ],
        )?;
        self.run(
            Statement::InsertOrderLine,
            &[
                place.0.into(),
                input.district.into(),
                input.warehouse.into(),
                place.1.into(),
                item.into(),
                supply_warehouse.into(),
                quantity.into(),
                money(amount),
                stock.text(5).into(),
            ],
        )?;
        Ok(Some((amount, is_brand(found.text(1), stock.text(4)))))
    }

    /// The number of the customer that is meant.
    fn find_customer(&mut self, warehouse: i32, district: i32, by: &CustomerBy) -> Result<i32, BenchError> {
        match by {
            CustomerBy::Number(number) => Ok(*number),
            CustomerBy::LastName(name) => {
                let parameters = [warehouse.into(), district.into(), Value::Text(name.as_str().into())];
                let rows = self.query(Statement::CustomersOfName, &parameters)?;
                let numbers: Vec<i32> = rows.rows().map(|row| row.int(0)).collect();
                Ok(numbers[middle(numbers.len())])
            }
        }
    }

    fn payment(&mut self, input: &Payment, history_id: i64) -> Result<(), BenchError> {
        let warehouse = Value::from(input.warehouse);
        let of_district = [warehouse.clone(), input.district.into()];
        let rows = self.query(Statement::WarehousePaid, std::slice::from_ref(&warehouse))?;
        let mut data = rows.first().text(0).to_owned();
        let paid = money(rows.first().number(1) + input.amount);
        self.run(Statement::PayWarehouse, &[paid, warehouse.clone()])?;
        let rows = self.query(Statement::DistrictPaid, &of_district)?;
        data.push_str("    ");
        data.push_str(rows.first().text(0));
        let paid = money(rows.first().number(1) + input.amount);
        self.run(Statement::PayDistrict, &[paid, warehouse.clone(), input.district.into()])?;
        let customer =
            self.find_customer(input.customer_warehouse, input.customer_district, &input.customer)?;
        self.pay_customer(input, customer)?;
        self.run(
            Statement::InsertHistory,
            &[
                history_id.into(),
                customer.into(),
                input.customer_district.into(),
                input.customer_warehouse.into(),
                input.district.into(),
                warehouse,
                now_microseconds().into(),
                money(input.amount),
                data.into(),
            ],
        )
    }

    fn pay_customer(&mut self, input: &Payment, customer: i32) -> Result<(), BenchError> {
        let key = [input.customer_warehouse.into(), input.customer_district.into(), customer.into()];
        let rows = self.query(Statement::CustomerPaid, &key)?;
        let row = rows.first();
        let mut parameters = vec![
            money(row.number(1) - input.amount),
            money(row.number(2) + input.amount),
            (row.int(3) + 1).into(),
        ];
        if row.text(0) != "BC" {
            parameters.extend(key);
            return self.run(Statement::PayCustomer, &parameters);
        }
        let payment = BadCreditPayment {
            customer,
            customer_district: input.customer_district,
            customer_warehouse: input.customer_warehouse,
            district: input.district,
            warehouse: input.warehouse,
            amount: input.amount,
        };
        let old = self.query(Statement::CustomerData, &key)?;
        parameters.push(bad_credit_data(&payment, old.first().text(0)).into());
        parameters.extend(key);
        self.run(Statement::PayBadCustomer, &parameters)
    }

    fn order_status(&mut self, input: &OrderStatus) -> Result<(), BenchError> {
        let &OrderStatus { warehouse, district, ref customer } = input;
        let customer = self.find_customer(warehouse, district, customer)?;
        let key = [warehouse.into(), district.into(), customer.into()];
        black_box(self.query(Statement::CustomerBalance, &key)?.first().number(0));
        let order = self.query(Statement::NewestOrder, &key)?.first().int(0);
        let lines = self.query(Statement::OrderLines, &[warehouse.into(), district.into(), order.into()])?;
        black_box(lines.rows().map(|line| line.number(3)).sum::<i64>());
        Ok(())
    }

    fn delivery(&mut self, input: Delivery) -> Result<(), BenchError> {
        let warehouse = Value::from(input.warehouse);
        let now = Value::from(now_microseconds());
        for district in (1..=DISTRICTS).map(Value::from) {
            let oldest = self.query(Statement::OldestNewOrder, &[warehouse.clone(), district.clone()])?;
            let Some(order) = oldest.rows().next().map(|row| Value::from(row.int(0))) else { continue };
            let key = [warehouse.clone(), district.clone(), order.clone()];
            self.run(Statement::DeleteNewOrder, &key)?;
            let customer = self.query(Statement::OrderCustomer, &key)?.first().int(0);
            let carrier = input.carrier.into();
            self.run(Statement::CarryOrder, &[carrier, warehouse.clone(), district.clone(), order.clone()])?;
            self.run(Statement::DeliverLines, &[now.clone(), warehouse.clone(), district.clone(), order])?;
            let lines = self.query(Statement::LineAmounts, &key)?;
            let sum: i64 = lines.rows().map(|line| line.number(0)).sum();
            let key = [warehouse.clone(), district, customer.into()];
            let billed = self.query(Statement::CustomerBilled, &key)?;
            let mut parameters =
                vec![money(billed.first().number(0) + sum), (billed.first().int(1) + 1).into()];
            parameters.extend(key);
            self.run(Statement::BillCustomer, &parameters)?;
        }
        Ok(())
    }

    /// How many different items of the last twenty orders run low.
    fn stock_level(&mut self, input: StockLevel) -> Result<usize, BenchError> {
        let (warehouse, district) = (Value::from(input.warehouse), Value::from(input.district));
        let next =
            self.query(Statement::DistrictNext, &[warehouse.clone(), district.clone()])?.first().int(0);
        let range = [warehouse.clone(), district, (next - LAST_ORDERS).into(), next.into()];
        let lines = self.query(Statement::RecentItems, &range)?;
        let mut items: Vec<i32> = lines.rows().map(|line| line.int(0)).collect();
        items.sort_unstable();
        items.dedup();
        let mut low = 0;
        for item in items {
            let stock = self.query(Statement::StockQuantity, &[warehouse.clone(), item.into()])?;
            low += usize::from(stock.first().int(0) < input.threshold);
        }
        Ok(low)
    }
}
