// SPDX-License-Identifier: Apache-2.0
//! `\g` and its kin: what becomes of the result of one statement.

use super::{Expanded, Flow, Shell};
use crate::cells::{Alignment, Cell, Cells, Listing, ResultCells};
use crate::failure::Failure;
use crate::grid::{Colours, print_aligned};
use crate::sql::command::{Delivery, Layout};
use crate::sql::problem::Origin;
use crate::sql::redirect::Redirect;
use arrow::datatypes::SchemaRef;
use coeval::{RowSet, StatementResult, column_type_of_field};
use std::io::Write;

impl Shell<'_> {
    /// Runs a statement, and does this with its result.
    pub(super) fn deliver(
        &mut self,
        sql: &str,
        origin: Origin<'_>,
        delivery: &Delivery,
    ) -> Result<Flow, Failure> {
        match delivery {
            Delivery::Print(layout, target) => self.print_into(sql, origin, *layout, target.as_deref()),
            Delivery::Variables(prefix) => {
                let sql = self.variables.interpolated(sql);
                self.run_for(&sql, origin, |shell, results| shell.keep_row(results, prefix))
            }
            Delivery::Columns => self.list_columns(sql, origin),
            Delivery::Statements => {
                let sql = self.variables.interpolated(sql);
                self.run_for(&sql, origin, Self::run_values)
            }
        }
    }

    fn print_into(
        &mut self,
        sql: &str,
        origin: Origin<'_>,
        layout: Layout,
        target: Option<&str>,
    ) -> Result<Flow, Failure> {
        let expanded = self.expanded;
        if layout == Layout::Expanded {
            self.expanded = Expanded::On;
        }
        let flow = match target {
            None => self.run(sql, origin),
            Some(target) => self.print_elsewhere(sql, origin, target),
        };
        self.expanded = expanded;
        flow
    }

    fn print_elsewhere(&mut self, sql: &str, origin: Origin<'_>, target: &str) -> Result<Flow, Failure> {
        self.out.flush()?;
        let redirect = match Redirect::open(target) {
            Ok(redirect) => redirect,
            Err(error) => {
                self.say(&format!("{target}: {error}"));
                return Ok(Flow::Failed);
            }
        };
        let before = self.redirect.replace(redirect);
        let flow = self.run(sql, origin);
        let redirect = std::mem::replace(&mut self.redirect, before);
        if let Some(mut redirect) = redirect {
            redirect.close()?;
        }
        flow
    }

    /// Makes variables of the values of the only row, with this in front of the names of the columns. NULL is no value.
    fn keep_row(&mut self, results: &[StatementResult], prefix: &str) -> Result<Flow, Failure> {
        let Some(rows) = results.last().and_then(|result| result.rows.as_ref()) else {
            self.print_results(results)?;
            return Ok(Flow::Next);
        };
        let refusal = match rows.rows() {
            0 => Some("no rows returned for \\gset"),
            1 => None,
            _ => Some("more than one row returned for \\gset"),
        };
        if let Some(refusal) = refusal {
            self.say(refusal);
            return Ok(Flow::Failed);
        }
        let names = rows.schema.fields().iter().map(|field| format!("{prefix}{}", field.name()));
        for (name, value) in names.zip(self.values_of(rows)?) {
            let kept = match value {
                Some(value) => self.variables.set(&name, value),
                None => {
                    self.variables.unset(&name);
                    Ok(())
                }
            };
            if let Err(message) = kept {
                self.say(&message);
                return Ok(Flow::Failed);
            }
        }
        Ok(Flow::Next)
    }

    /// Runs each value as a statement. NULL is none.
    fn run_values(&mut self, results: &[StatementResult]) -> Result<Flow, Failure> {
        let Some(rows) = results.last().and_then(|result| result.rows.as_ref()) else {
            self.print_results(results)?;
            return Ok(Flow::Next);
        };
        for statement in self.values_of(rows)?.into_iter().flatten() {
            let flow = self.run_text(&statement, Origin { file: None, line: 1 })?;
            if flow != Flow::Next && !self.goes_on_after(flow) {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    /// The texts of all values, row by row; `None` for NULL.
    fn values_of(&self, rows: &RowSet) -> Result<Vec<Option<String>>, Failure> {
        let columns = rows.schema.fields().len();
        let mut values = Vec::new();
        ResultCells::new(rows, self.session.settings().zone()).for_each_row(&mut |write| {
            for column in 0..columns {
                let mut text = String::new();
                values.push(match write(column, &mut text) {
                    Cell::Null => None,
                    Cell::Value => Some(text),
                });
            }
            Ok(())
        })?;
        Ok(values)
    }

    /// Lists the columns that a statement gives, without running it.
    fn list_columns(&mut self, sql: &str, origin: Origin<'_>) -> Result<Flow, Failure> {
        let sql = self.variables.interpolated(sql);
        let columns = match self.session.prepare(&sql) {
            Ok(prepared) => prepared.columns().map(SchemaRef::clone),
            Err(error) => {
                self.out.flush()?;
                self.complain(&error, &sql, origin);
                return Ok(Flow::Failed);
            }
        };
        let out = self.results_out();
        match columns {
            Some(columns) => print_aligned(out, &listing(&columns), Colours::Off)?,
            None => writeln!(out, "The command has no result, or the result has no columns.")?,
        }
        Ok(Flow::Next)
    }
}

/// Columns with their types.
fn listing(columns: &SchemaRef) -> Listing {
    let mut listing = Listing::new(&[("Column", Alignment::Left), ("Type", Alignment::Left)]);
    for field in columns.fields() {
        let ty = column_type_of_field(field);
        let ty = ty.map_or_else(|| field.data_type().to_string(), |ty| ty.to_string());
        listing.push([field.name().clone(), ty]);
    }
    listing
}
