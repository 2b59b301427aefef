// SPDX-License-Identifier: Apache-2.0
//! SQL transactions on a foreign engine: statements go there as texts.

use super::client::{Answer, Client};
use super::schema::TABLES;
use super::statements::{Statement, Statements};
use crate::error::BenchError;
use crate::foreign::{Foreign, ForeignSession, Template, Way, number, text};
use crate::options::UpdateReads;
use coeval::Value;
use coeval_tique::{Effort, Rows};

/// A session with the statements' templates.
pub(super) struct ForeignClient<'d> {
    foreign: &'d Foreign,
    session: ForeignSession,
    statements: Statements<Template>,
}

impl<'d> ForeignClient<'d> {
    /// A session with snapshots: that is what TiQuE and its engines have.
    pub(super) fn new(foreign: &'d Foreign) -> Result<Self, BenchError> {
        let tables: Vec<_> = TABLES.iter().collect();
        let way = if foreign.database().is_some() { Way::Tique } else { Way::Native };
        let statements = Statements::new(UpdateReads::Plain, |text| {
            Ok::<_, BenchError>(Template::new(text, &tables, way))
        })?;
        Ok(Self { foreign, session: foreign.session()?, statements })
    }
}

impl Client for ForeignClient<'_> {
    type Answer = Option<Rows>;

    fn begin(&mut self) -> Result<(), BenchError> {
        self.session.begin()
    }

    fn commit(&mut self) -> Result<(), BenchError> {
        self.session.commit()
    }

    fn roll_back(&mut self) -> Result<(), BenchError> {
        self.session.roll_back()
    }

    fn call(&mut self, statement: Statement, parameters: &[Value]) -> Result<Option<Rows>, BenchError> {
        let sql = self.statements.get(statement).with(parameters, self.foreign);
        self.session.run(&sql, Effort::Point)
    }
}

/// Nothing for a statement that only writes.
impl Answer for Option<Rows> {
    fn row_count(&self) -> usize {
        self.as_ref().map_or(0, Rows::count)
    }

    fn number(&self, row: usize, column: usize) -> i64 {
        let found = self.as_ref().and_then(|rows| number(rows, row, column));
        found.expect("the statement asked for a number that is not NULL")
    }

    fn text(&self, row: usize, column: usize) -> &str {
        text(self.as_ref().expect("the statement asked for text"), row, column)
    }
}
