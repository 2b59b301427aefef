// SPDX-License-Identifier: Apache-2.0
//! How results are printed.

use crate::cells::ResultCells;
use crate::failure::Failure;
use crate::grid::{Colours, aligned_width, print_aligned, print_expanded};
use chrono_tz::Tz;
use coeval::{CommandTag, RowSet, StatementResult};
use std::io::Write;

/// Whom the output is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Somebody at a terminal, with colours or without.
    Person(Colours),
    /// A file or a program.
    Program,
}

/// Whether rows are printed with a line for each column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expanded {
    On,
    Off,
    /// When they are wider than the terminal.
    Auto,
}

/// How results are shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) audience: Audience,
    pub(super) expanded: Expanded,
    pub(super) zone: Tz,
}

impl Look {
    /// Prints what a statement has given.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub(super) fn print(self, out: &mut dyn Write, result: &StatementResult) -> Result<(), Failure> {
        if let Some(rows) = &result.rows {
            self.print_rows(out, rows)?;
        }
        let says_all = match result.tag {
            CommandTag::Select(_) | CommandTag::Fetch(_) | CommandTag::Plain(_) => result.rows.is_some(),
            CommandTag::Insert(_)
            | CommandTag::Update(_)
            | CommandTag::Delete(_)
            | CommandTag::Merge(_)
            | CommandTag::Copy(_)
            | CommandTag::Move(_) => false,
        };
        if !says_all {
            writeln!(out, "{}", result.tag)?;
        }
        Ok(())
    }

    fn print_rows(self, out: &mut dyn Write, rows: &RowSet) -> Result<(), Failure> {
        let cells = ResultCells::new(rows, self.zone);
        let colours = match self.audience {
            Audience::Person(colours) => colours,
            Audience::Program => Colours::Off,
        };
        let is_expanded = match (self.expanded, self.audience) {
            (Expanded::On, _) => true,
            (Expanded::Off, _) | (Expanded::Auto, Audience::Program) => false,
            (Expanded::Auto, Audience::Person(_)) => {
                let width = console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
                width.is_some_and(|width| aligned_width(&cells).is_ok_and(|needed| needed > width))
            }
        };
        if is_expanded {
            print_expanded(out, &cells, colours)?;
        } else {
            print_aligned(out, &cells, colours)?;
        }
        Ok(())
    }
}
