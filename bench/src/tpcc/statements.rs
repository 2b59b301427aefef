// SPDX-License-Identifier: Apache-2.0
//! The SQL statements of TPC-C, each prepared once for each session.

use crate::options::{Options, UpdateReads, level_name};
use coeval::Isolation;

/// Declares the statements: their names and texts.
macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident = $text:expr;)*) => {
        /// One of TPC-C's statements.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Statement {
            $($(#[$doc])* $name,)*
        }

        /// All statements with their texts, in the order of the variants.
        const TEXTS: &[(Statement, &str)] = &[$((Statement::$name, $text),)*];
    };
}

/// Reads stock with what is printed on goods for one district.
macro_rules! stock {
    ($district:literal) => {
        concat!(
            "SELECT s_quantity, s_ytd, s_order_cnt, s_remote_cnt, s_data, s_dist_",
            $district,
            " FROM stock WHERE s_w_id = $1 AND s_i_id = $2"
        )
    };
}

statements! {
    WarehouseTax = "SELECT w_tax FROM warehouse WHERE w_id = $1";
    DistrictOrder = "SELECT d_next_o_id, d_tax FROM district WHERE d_w_id = $1 AND d_id = $2";
    DistrictNext = "SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2";
    AdvanceDistrict = "UPDATE district SET d_next_o_id = $1 WHERE d_w_id = $2 AND d_id = $3";
    CustomerDiscount =
        "SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3";
    InsertOrder = "INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7)";
    InsertNewOrder = "INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES ($1, $2, $3)";
    Item = "SELECT i_price, i_data, i_name FROM item WHERE i_id = $1";
    /// With what is printed on goods for district 1; the others follow.
    Stock01 = stock!("01");
    Stock02 = stock!("02");
    Stock03 = stock!("03");
    Stock04 = stock!("04");
    Stock05 = stock!("05");
    Stock06 = stock!("06");
    Stock07 = stock!("07");
    Stock08 = stock!("08");
    Stock09 = stock!("09");
    Stock10 = stock!("10");
    TakeStock = "UPDATE stock SET s_quantity = $1, s_ytd = $2, s_order_cnt = $3, s_remote_cnt = $4 \
                 WHERE s_w_id = $5 AND s_i_id = $6";
    InsertOrderLine =
        "INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, \
         ol_amount, ol_dist_info) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    WarehousePaid = "SELECT w_name, w_ytd, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse \
                     WHERE w_id = $1";
    PayWarehouse = "UPDATE warehouse SET w_ytd = $1 WHERE w_id = $2";
    DistrictPaid = "SELECT d_name, d_ytd, d_street_1, d_street_2, d_city, d_state, d_zip FROM district \
                    WHERE d_w_id = $1 AND d_id = $2";
    PayDistrict = "UPDATE district SET d_ytd = $1 WHERE d_w_id = $2 AND d_id = $3";
    /// By an index on these three columns and the first name.
    CustomersOfName =
        "SELECT c_id FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first";
    CustomerPaid =
        "SELECT c_credit, c_balance, c_ytd_payment, c_payment_cnt, c_first, c_middle, c_last, c_street_1, c_street_2, \
         c_city, c_state, c_zip, c_phone, c_since, c_credit_lim, c_discount FROM customer \
         WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3";
    CustomerData = "SELECT c_data FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3";
    PayCustomer = "UPDATE customer SET c_balance = $1, c_ytd_payment = $2, c_payment_cnt = $3 \
                   WHERE c_w_id = $4 AND c_d_id = $5 AND c_id = $6";
    PayBadCustomer = "UPDATE customer SET c_balance = $1, c_ytd_payment = $2, c_payment_cnt = $3, c_data = $4 \
                      WHERE c_w_id = $5 AND c_d_id = $6 AND c_id = $7";
    InsertHistory =
        "INSERT INTO history (h_id, h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    CustomerBalance =
        "SELECT c_balance, c_first, c_middle, c_last FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3";
    /// By an index on these three columns and the order's number.
    NewestOrder = "SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 \
                   ORDER BY o_id DESC LIMIT 1";
    OrderLines = "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line \
                  WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3";
    OldestNewOrder =
        "SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 ORDER BY no_o_id LIMIT 1";
    DeleteNewOrder = "DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3";
    OrderCustomer = "SELECT o_c_id FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3";
    CarryOrder = "UPDATE orders SET o_carrier_id = $1 WHERE o_w_id = $2 AND o_d_id = $3 AND o_id = $4";
    DeliverLines =
        "UPDATE order_line SET ol_delivery_d = $1 WHERE ol_w_id = $2 AND ol_d_id = $3 AND ol_o_id = $4";
    LineAmounts = "SELECT ol_amount FROM order_line WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3";
    CustomerBilled =
        "SELECT c_balance, c_delivery_cnt FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3";
    BillCustomer = "UPDATE customer SET c_balance = $1, c_delivery_cnt = $2 \
                    WHERE c_w_id = $3 AND c_d_id = $4 AND c_id = $5";
    RecentItems = "SELECT ol_i_id FROM order_line \
                   WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id >= $3 AND ol_o_id < $4";
    StockQuantity = "SELECT s_quantity FROM stock WHERE s_w_id = $1 AND s_i_id = $2";
}

/// The statement that begins a transaction of a level.
fn begin(isolation: Isolation) -> String {
    format!("BEGIN ISOLATION LEVEL {}", level_name(isolation))
}

impl Statement {
    /// Whether it reads a row that the transaction then writes, with values made from what it read.
    fn precedes_update(self) -> bool {
        use Statement::{
            CustomerBilled, CustomerPaid, DistrictOrder, DistrictPaid, OldestNewOrder, WarehousePaid,
        };
        let reads_stock = (1..=10).any(|district| Self::stock_of(district) == self);
        let others =
            [CustomerBilled, CustomerPaid, DistrictOrder, DistrictPaid, OldestNewOrder, WarehousePaid];
        reads_stock || others.contains(&self)
    }

    /// The one that reads stock with what is printed on goods for this district.
    pub(crate) fn stock_of(district: i32) -> Self {
        const OF_DISTRICT: [Statement; 10] = [
            Statement::Stock01,
            Statement::Stock02,
            Statement::Stock03,
            Statement::Stock04,
            Statement::Stock05,
            Statement::Stock06,
            Statement::Stock07,
            Statement::Stock08,
            Statement::Stock09,
            Statement::Stock10,
        ];
        OF_DISTRICT[district as usize - 1]
    }
}

/// All statements, prepared.
pub(crate) struct Statements<P>(Vec<P>);

impl<P> Statements<P> {
    /// Prepares all of them.
    pub(crate) fn new<E>(
        reads: UpdateReads,
        mut prepare: impl FnMut(&str) -> Result<P, E>,
    ) -> Result<Self, E> {
        let text = |statement: Statement, text: &str| {
            let locks = reads == UpdateReads::Locking && statement.precedes_update();
            if locks { format!("{text} FOR NO KEY UPDATE") } else { text.to_owned() }
        };
        let prepared = TEXTS.iter().map(|(statement, sql)| prepare(&text(*statement, sql)));
        prepared.collect::<Result<_, _>>().map(Self)
    }

    /// One of them.
    #[inline]
    pub(crate) fn get(&self, statement: Statement) -> &P {
        &self.0[statement as usize]
    }
}

/// All that the transactions of a session send, prepared. The level stands in `begin` alone: figures of two levels are
/// compared, and are of the same statements.
pub(super) struct Script<P> {
    pub(super) begin: P,
    pub(super) commit: P,
    pub(super) rollback: P,
    pub(super) statements: Statements<P>,
}

impl<P> Script<P> {
    /// Prepares what a session with these options sends.
    pub(super) fn new<E>(
        options: &Options,
        mut prepare: impl FnMut(&str) -> Result<P, E>,
    ) -> Result<Self, E> {
        Ok(Self {
            begin: prepare(&begin(options.isolation))?,
            commit: prepare("COMMIT")?,
            rollback: prepare("ROLLBACK")?,
            statements: Statements::new(options.update_reads, prepare)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::create_tables;
    use crate::tpcc::schema::TABLES;
    use arrow::array::AsArray;
    use coeval::Database;
    use std::collections::BTreeSet;

    #[test]
    fn every_statement_is_found_under_its_name() {
        let statements = Statements::new(UpdateReads::Plain, |text| Ok::<_, ()>(text.to_owned())).unwrap();
        for (place, (statement, text)) in TEXTS.iter().enumerate() {
            assert_eq!(*statement as usize, place);
            assert_eq!(statements.get(*statement), text);
        }
        assert_eq!(TEXTS.iter().map(|(_, text)| text).collect::<BTreeSet<_>>().len(), TEXTS.len());
    }

    #[test]
    fn each_level_sends_the_same_statements_behind_its_own_beginning() {
        let script = |isolation, update_reads| {
            let options = Options { isolation, update_reads, ..Options::default() };
            Script::new(&options, |text| Ok::<_, ()>(text.to_owned())).unwrap()
        };
        for reads in [UpdateReads::Locking, UpdateReads::Plain] {
            let serializable = script(Isolation::Serializable, reads);
            assert_eq!(serializable.begin, "BEGIN ISOLATION LEVEL serializable");
            for (level, begin) in [
                (Isolation::Snapshot, "BEGIN ISOLATION LEVEL repeatable read"),
                (Isolation::ReadCommitted, "BEGIN ISOLATION LEVEL read committed"),
            ] {
                let other = script(level, reads);
                assert_eq!(other.begin, begin);
                assert_eq!(other.statements.0, serializable.statements.0, "{begin}");
                assert_eq!(
                    (other.commit, other.rollback),
                    (serializable.commit.clone(), serializable.rollback.clone())
                );
            }
            // Where a row is read that is written then, and nowhere else.
            for (statement, text) in TEXTS {
                let locks = reads == UpdateReads::Locking && statement.precedes_update();
                assert_eq!(
                    serializable.statements.get(*statement).ends_with(" FOR NO KEY UPDATE"),
                    locks,
                    "{text}"
                );
            }
        }
    }

    /// The statement with numbers, and one text, where it compares with parameters, and NULL where it writes them.
    fn with_constants(text: &str) -> String {
        let (written, compared) = text.split_once(" WHERE ").unwrap_or((text, ""));
        let fill = |part: &str, constant: &str| {
            (1..20).rev().fold(part.to_owned(), |part, number| part.replace(&format!("${number}"), constant))
        };
        let compared = fill(compared, "1").replace("c_last = 1", "c_last = 'BAR'");
        let written = fill(written, "NULL");
        if compared.is_empty() { written } else { format!("{written} WHERE {compared}") }
    }

    #[test]
    fn no_statement_is_planned_by_datafusion() {
        let db = Database::in_memory().unwrap();
        create_tables(&db, &TABLES).unwrap();
        let mut session = db.session();
        for (statement, text) in TEXTS {
            let plan = session.query(&format!("EXPLAIN {}", with_constants(text))).unwrap();
            let first = plan[0].column(0).as_string::<i32>().value(0).to_owned();
            assert!(first.starts_with("Point path"), "{statement:?}: {first}");
        }
        let other = session.query("EXPLAIN SELECT sum(s_ytd) FROM stock GROUP BY s_quantity").unwrap();
        assert_eq!(other[0].column(0).as_string::<i32>().value(0), "DataFusion path:");
    }

    #[test]
    fn each_district_has_its_own_print() {
        for district in 1..=10 {
            let text = TEXTS[Statement::stock_of(district) as usize].1;
            assert!(text.contains(&format!("s_dist_{district:02}")));
        }
    }
}
