// SPDX-License-Identifier: Apache-2.0
//! Prints rows: aligned, or expanded with one line for each column.
//!
//! ```text
//!  id | name            -[ RECORD 1 ]---
//! ----+-------          id   | 1
//!   1 | first+          name | first+
//!     | line                 | line
//! (1 row)
//! ```
//! Rows are formatted twice, once for the widths and once to be printed, so that a large result takes no more
//! memory than it has already. A plus sign at the end of a cell says that its text goes on below. Characters that a
//! terminal would obey are shown as `\x1B` and the like.

use crate::cells::{Alignment, Cell, Cells};
use std::fmt::Write as _;
use std::io::{self, Write};
use unicode_width::UnicodeWidthStr;

/// Whether output goes to somebody who sees colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colours {
    On,
    Off,
}

/// What NULL looks like.
const NULL: &str = "NULL";

/// Prints a header, the rows below each other, and their number.
///
/// # Errors
/// If the output cannot be written.
pub(crate) fn print_aligned(out: &mut dyn Write, cells: &dyn Cells, colours: Colours) -> io::Result<()> {
    let columns = Columns::measure(cells)?;
    columns.print_header(out)?;
    let mut row_cells: Vec<CellLines> = columns.columns.iter().map(|_| CellLines::default()).collect();
    cells.for_each_row(&mut |write| {
        for (column, cell) in row_cells.iter_mut().enumerate() {
            cell.read(|text| write(column, text));
        }
        columns.print_row(out, &row_cells, colours)
    })?;
    print_count(out, cells.rows())
}

/// How many characters wide [`print_aligned`] would print.
///
/// # Errors
/// None of its own.
pub(crate) fn aligned_width(cells: &dyn Cells) -> io::Result<usize> {
    let columns = Columns::measure(cells)?;
    let widths: usize = columns.widths.iter().map(|width| width + 2).sum();
    Ok(widths + columns.widths.len().saturating_sub(1))
}

fn print_count(out: &mut dyn Write, rows: usize) -> io::Result<()> {
    match rows {
        1 => writeln!(out, "(1 row)"),
        rows => writeln!(out, "({rows} rows)"),
    }
}

/// Prints each row as a block with a line for each column.
///
/// # Errors
/// If the output cannot be written.
pub(crate) fn print_expanded(out: &mut dyn Write, cells: &dyn Cells, colours: Colours) -> io::Result<()> {
    let columns = cells.columns();
    let names: Vec<String> = columns.iter().map(|(name, _)| shown(name).join(" ")).collect();
    let name_width = names.iter().map(|name| name.width()).max().unwrap_or(0);
    let mut cell = CellLines::default();
    let mut number = 0;
    cells.for_each_row(&mut |write| {
        number += 1;
        let title = format!("-[ RECORD {number} ]");
        writeln!(out, "{title:-<width$}", width = name_width + 12)?;
        for (column, name) in names.iter().enumerate() {
            cell.read(|text| write(column, text));
            for (line, text) in cell.lines.iter().enumerate() {
                let label = if line == 0 { name.as_str() } else { "" };
                let padding = name_width - label.width();
                let goes_on = if line + 1 < cell.lines.len() { "+" } else { "" };
                let painted = cell.painted(text, colours);
                writeln!(out, "{label}{:padding$} | {painted}{goes_on}", "")?;
            }
        }
        Ok(())
    })?;
    if number == 0 { print_count(out, 0) } else { Ok(()) }
}

/// The columns of an aligned table.
struct Columns {
    columns: Vec<(Vec<String>, Alignment)>,
    widths: Vec<usize>,
}

impl Columns {
    fn measure(cells: &dyn Cells) -> io::Result<Self> {
        let columns: Vec<(Vec<String>, Alignment)> =
            cells.columns().into_iter().map(|(name, alignment)| (shown(&name), alignment)).collect();
        let mut widths: Vec<usize> = columns.iter().map(|(name, _)| width_of(name)).collect();
        let mut cell = CellLines::default();
        cells.for_each_row(&mut |write| {
            for (column, width) in widths.iter_mut().enumerate() {
                cell.read(|text| write(column, text));
                *width = (*width).max(cell.width());
            }
            Ok(())
        })?;
        Ok(Self { columns, widths })
    }

    /// Names in the middle, a line below.
    fn print_header(&self, out: &mut dyn Write) -> io::Result<()> {
        let lines = self.columns.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for line in 0..lines {
            for (place, ((name, _), width)) in self.columns.iter().zip(&self.widths).enumerate() {
                let text = name.get(line).map_or("", String::as_str);
                let missing = width - text.width();
                let left = missing / 2;
                let separator = if place == 0 { "" } else { "|" };
                write!(out, "{separator} {}{text}{} ", " ".repeat(left), " ".repeat(missing - left))?;
            }
            writeln!(out)?;
        }
        let rules: Vec<String> = self.widths.iter().map(|width| "-".repeat(width + 2)).collect();
        writeln!(out, "{}", rules.join("+"))
    }

    fn print_row(&self, out: &mut dyn Write, row: &[CellLines], colours: Colours) -> io::Result<()> {
        let lines = row.iter().map(|cell| cell.lines.len()).max().unwrap_or(1);
        for line in 0..lines {
            let last = row.len().saturating_sub(1);
            for (place, ((cell, width), (_, alignment))) in
                row.iter().zip(&self.widths).zip(&self.columns).enumerate()
            {
                let text = cell.lines.get(line).map_or("", String::as_str);
                let goes_on = if line + 1 < cell.lines.len() { "+" } else { " " };
                let missing = width - text.width();
                let (left, right) = match alignment {
                    Alignment::Right => (missing, 0),
                    // Nothing stands behind the last column: no blanks there.
                    Alignment::Left if place == last && goes_on == " " => (0, 0),
                    Alignment::Left => (0, missing),
                };
                let separator = if place == 0 { "" } else { "|" };
                let painted = cell.painted(text, colours);
                write!(out, "{separator} {}{painted}{}", " ".repeat(left), " ".repeat(right))?;
                if place < last || goes_on == "+" {
                    write!(out, "{goes_on}")?;
                }
            }
            writeln!(out)?;
        }
        Ok(())
    }
}

/// One cell, cut into the lines that are printed.
struct CellLines {
    text: String,
    lines: Vec<String>,
    cell: Cell,
}

impl Default for CellLines {
    fn default() -> Self {
        Self { text: String::new(), lines: Vec::new(), cell: Cell::Null }
    }
}

impl CellLines {
    fn read(&mut self, write: impl FnOnce(&mut String) -> Cell) {
        self.text.clear();
        self.cell = write(&mut self.text);
        self.lines = match self.cell {
            Cell::Null => vec![NULL.to_owned()],
            Cell::Value => shown(&self.text),
        };
    }

    fn width(&self) -> usize {
        width_of(&self.lines)
    }

    /// NULL is dimmed, so that it is not taken for the text "NULL".
    fn painted<'a>(&self, text: &'a str, colours: Colours) -> std::borrow::Cow<'a, str> {
        if self.cell == Cell::Null && colours == Colours::On && !text.is_empty() {
            format!("\x1b[2m{text}\x1b[0m").into()
        } else {
            text.into()
        }
    }
}

fn width_of(lines: &[String]) -> usize {
    lines.iter().map(|line| line.width()).max().unwrap_or(0)
}

/// The lines of a text as they are printed: tabs as blanks, control characters spelled out. At least one line.
pub(crate) fn shown(text: &str) -> Vec<String> {
    let is_plain = |character: char| !character.is_control();
    if text.chars().all(is_plain) {
        return vec![text.to_owned()];
    }
    text.split('\n').map(shown_line).collect()
}

/// How far apart tab stops are.
const TAB_WIDTH: usize = 8;

fn shown_line(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    for character in line.chars() {
        match character {
            '\t' => {
                let missing = TAB_WIDTH - shown.width() % TAB_WIDTH;
                shown.extend(std::iter::repeat_n(' ', missing));
            }
            '\r' => shown.push_str("\\r"),
            control if control.is_control() => {
                // Writing to a String cannot fail.
                let _ = write!(shown, "\\x{:02X}", u32::from(control));
            }
            other => shown.push(other),
        }
    }
    shown
}

#[cfg(test)]
mod tests;
