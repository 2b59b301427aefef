// SPDX-License-Identifier: Apache-2.0
//! Histories of concurrent clients, judged by what each was told and by nothing else.
//!
//! ```text
//! recorder    clients append to lists and read them, and write down what they were told
//! edn         the same as a file, as Elle writes and reads them
//! checker     infers from the lists who came before whom, and looks for cycles
//! ```

mod checker;
mod edn;
mod history;
mod own_tables;
mod recorder;

pub use checker::{Anomaly, anomalies};
pub use edn::HistoryError;
pub use history::{Ending, History, Operation, Transaction};
pub use own_tables::Levels;
pub(crate) use own_tables::record_on;
pub use recorder::{Lists, Notes, Steps, TABLE, numbers, record};
