// SPDX-License-Identifier: Apache-2.0
//! The driver, from which everything else is made.

use crate::database::{Database, Opening};
use adbc_core::error::Result;
use adbc_core::options::{OptionDatabase, OptionValue};

/// The driver of the embedded database.
#[derive(Clone, Copy, Debug, Default)]
pub struct CoevalDriver;

impl adbc_core::Driver for CoevalDriver {
    type DatabaseType = Database;

    fn new_database(&mut self) -> Result<Database> {
        self.new_database_with_opts([])
    }

    fn new_database_with_opts(
        &mut self,
        options: impl IntoIterator<Item = (OptionDatabase, OptionValue)>,
    ) -> Result<Database> {
        let mut opening = Opening::default();
        for (key, value) in options {
            opening.set(key.as_ref(), value)?;
        }
        opening.open()
    }
}
