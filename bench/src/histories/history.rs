// SPDX-License-Identifier: Apache-2.0
//! What clients did and were told: transactions that append to lists and read them, as Elle records them.
//!
//! Each value is appended once, so a list that was read tells in which order its appends took effect, and who made
//! them (Kingsbury and Alvaro, *Elle: Inferring Isolation Anomalies from Experimental Observations*, 2020).

use std::fmt::Write;

/// What a transaction did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Appended a value to the list of a key.
    Append {
        /// Whose list.
        key: u64,
        /// No other append has it.
        value: u64,
    },
    /// Read the list of a key.
    Read {
        /// Whose list.
        key: u64,
        /// What was found.
        list: Vec<u64>,
    },
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It took effect.
    Committed,
    /// It did not.
    Aborted,
    /// Nobody was told.
    Unknown,
}

/// A transaction that has ended.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// The client.
    pub process: usize,
    /// In their order.
    pub operations: Vec<Operation>,
    /// What became of it.
    pub ending: Ending,
}

/// Transactions in any order.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Those that have ended.
    pub transactions: Vec<Transaction>,
}

impl History {
    /// How many transactions have committed.
    #[must_use]
    pub fn committed(&self) -> usize {
        self.transactions.iter().filter(|one| one.ending == Ending::Committed).count()
    }

    /// As a file of Elle's: one map for each transaction.
    #[must_use]
    pub fn to_edn(&self) -> String {
        let mut edn = String::new();
        for (index, transaction) in self.transactions.iter().enumerate() {
            let ending = match transaction.ending {
                Ending::Committed => "ok",
                Ending::Aborted => "fail",
                Ending::Unknown => "info",
            };
            let process = transaction.process;
            let _ = write!(edn, "{{:index {index}, :type :{ending}, :process {process}, :f :txn, :value [");
            for operation in &transaction.operations {
                let _ = match operation {
                    Operation::Append { key, value } => write!(edn, "[:append {key} {value}]"),
                    Operation::Read { key, list } => write!(edn, "[:r {key} {list:?}]"),
                };
            }
            edn.push_str("]}\n");
        }
        edn
    }
}
