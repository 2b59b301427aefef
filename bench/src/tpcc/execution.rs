// SPDX-License-Identifier: Apache-2.0
//! What both APIs agree on: how a transaction ended, and the rules of TPC-C that are arithmetic.

use super::input::Input;
use crate::board::Outcome;
use crate::error::BenchError;

/// One transaction, run until it committed or was meant to roll back: how it ended, and how many attempts lost
/// certification before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Execution {
    pub(crate) outcome: Outcome,
    pub(crate) conflicts: u64,
}

/// Runs transactions through one of the APIs.
pub(crate) trait Executor: Send {
    /// Runs one transaction, again after each conflict.
    fn execute(&mut self, input: &Input) -> Result<Execution, BenchError>;
}

/// Numbers for `h_id`: those of one terminal thread, apart from all others'.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HistoryIds {
    next: i64,
    step: i64,
}

impl HistoryIds {
    /// Those of thread `thread` of `threads`, behind the largest number that is taken.
    pub(crate) fn new(largest: i64, thread: usize, threads: usize) -> Self {
        Self { next: largest + 1 + thread as i64, step: threads as i64 }
    }

    /// The next one.
    pub(crate) fn next(&mut self) -> i64 {
        self.next += self.step;
        self.next - self.step
    }
}

/// The stock that is left after an order (clause 2.4.2.2): refilled by 91 when it would fall below 10.
#[inline]
pub(crate) fn stock_after(quantity: i32, ordered: i32) -> i32 {
    if quantity >= ordered + 10 { quantity - ordered } else { quantity - ordered + 91 }
}

/// The place, from 0, of the customer that is meant among `count` of one last name, ordered by first name
/// (clause 2.5.2.2): the middle one, rounded up.
#[inline]
pub(crate) fn middle(count: usize) -> usize {
    count.div_ceil(2) - 1
}

/// What `C_DATA` becomes when a customer with bad credit pays (clause 2.5.2.2), cut to the column's 500
/// characters.
pub(crate) fn bad_credit_data(payment: &BadCreditPayment, old: &str) -> String {
    let BadCreditPayment { customer, customer_district, customer_warehouse, district, warehouse, amount } =
        payment;
    let mut data = format!(
        "{customer} {customer_district} {customer_warehouse} {district} {warehouse} {}.{:02}|{old}",
        amount / 100,
        amount % 100
    );
    // All of it is ASCII, so every place is the border of a character.
    data.truncate(DATA_LENGTH_MAX);
    data
}

/// The length of `C_DATA`.
const DATA_LENGTH_MAX: usize = 500;

/// What goes into `C_DATA`.
pub(crate) struct BadCreditPayment {
    pub(crate) customer: i32,
    pub(crate) customer_district: i32,
    pub(crate) customer_warehouse: i32,
    pub(crate) district: i32,
    pub(crate) warehouse: i32,
    /// In cents.
    pub(crate) amount: i64,
}

/// What an order costs with discount and taxes (clause 2.4.2.2), in hundredths of a cent of a cent: the sum in
/// cents times two factors with four digits each.
#[inline]
pub(crate) fn order_total(sum: i64, discount: i64, warehouse_tax: i64, district_tax: i64) -> i128 {
    i128::from(sum) * i128::from(10_000 - discount) * i128::from(10_000 + warehouse_tax + district_tax)
}

/// Whether the goods are of a brand, not generic (clause 2.4.2.2): both descriptions say ORIGINAL.
#[inline]
pub(crate) fn is_brand(item_data: &str, stock_data: &str) -> bool {
    item_data.contains(super::choice::ORIGINAL) && stock_data.contains(super::choice::ORIGINAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stock_is_refilled_before_it_falls_below_ten() {
        assert_eq!(stock_after(50, 10), 40);
        assert_eq!(stock_after(20, 10), 10);
        assert_eq!(stock_after(19, 10), 100);
    }

    #[test]
    fn the_middle_customer_is_rounded_up() {
        assert_eq!([1, 2, 3, 4, 5].map(middle), [0, 0, 1, 1, 2]);
    }

    #[test]
    fn bad_credit_data_grows_in_front_and_is_cut_behind() {
        let payment = BadCreditPayment {
            customer: 7,
            customer_district: 2,
            customer_warehouse: 1,
            district: 3,
            warehouse: 4,
            amount: 123_405,
        };
        let data = bad_credit_data(&payment, &"x".repeat(500));
        assert!(data.starts_with("7 2 1 3 4 1234.05|xxx"));
        assert_eq!(data.len(), 500);
    }

    #[test]
    fn only_original_items_of_original_stock_are_a_brand() {
        assert!(is_brand("abORIGINALcd", "ORIGINAL"));
        assert!(!is_brand("abORIGINALcd", "generic"));
    }
}
