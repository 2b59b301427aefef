// SPDX-License-Identifier: Apache-2.0
//! The options of COPY.

use crate::error::{SqlError, SqlState};
use crate::parse::{HEADER_MATCH_MARK, MAX_REJECTED_MARK};
use coeval_store::TableDef;
use datafusion::sql::sqlparser::ast::{CopyLegacyOption, CopyOption, Ident};

/// How rows look in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyFormat {
    /// PostgreSQL's text format: a row a line, backslash escapes.
    Text,
    /// Comma-separated values.
    Csv,
    /// PostgreSQL's binary format.
    Binary,
    /// Parquet.
    Parquet,
    /// A stream of Arrow's IPC format, which is only written.
    Arrow,
}

/// Which way rows go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyDirection {
    /// COPY FROM.
    From,
    /// COPY TO.
    To,
}

/// Whether the first line names the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// It is a row like the others.
    Absent,
    /// It is skipped when reading and written when writing.
    Present,
    /// It has to name just the columns that are read, in their order.
    Matching,
}

/// The options of one COPY, complete: what was not said has its default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopyOptions {
    /// How rows look.
    pub(crate) format: CopyFormat,
    /// Between fields.
    pub(crate) delimiter: u8,
    /// What stands for NULL.
    pub(crate) null: String,
    /// Whether the first line names the columns.
    pub(crate) header: Header,
    /// Around CSV fields.
    pub(crate) quote: u8,
    /// Before a quote inside a quoted CSV field.
    pub(crate) escape: u8,
    /// Columns that COPY TO always quotes; [`ALL_COLUMNS`](crate::parse::ALL_COLUMNS) stands for all.
    pub(crate) force_quote: Vec<String>,
    /// Columns in which nothing stands for NULL.
    pub(crate) force_not_null: Vec<String>,
    /// Columns in which a quoted NULL text is NULL too.
    pub(crate) force_null: Vec<String>,
    /// How many bad rows a load of a brick table leaves out; one more and nothing is loaded.
    pub(crate) rejected_max: Option<usize>,
}

/// What the statement said so far; `None`: nothing.
#[derive(Default)]
struct Said {
    format: Option<CopyFormat>,
    delimiter: Option<char>,
    null: Option<String>,
    header: Option<Header>,
    quote: Option<char>,
    escape: Option<char>,
    force_quote: Option<Vec<String>>,
    force_not_null: Option<Vec<String>>,
    force_null: Option<Vec<String>>,
    encoding: Option<String>,
    rejected_max: Option<usize>,
}

fn put<T>(slot: &mut Option<T>, value: T) -> Result<(), SqlError> {
    if slot.replace(value).is_some() {
        return Err(SqlError::new(SqlState::SyntaxError, "conflicting or redundant options"));
    }
    Ok(())
}

fn names(columns: &[Ident]) -> Vec<String> {
    columns.iter().map(crate::names::fold).collect()
}

fn unsupported(what: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::FeatureNotSupported, what.into())
}

impl Said {
    fn option(&mut self, option: &CopyOption) -> Result<(), SqlError> {
        match option {
            CopyOption::Format(name) => put(&mut self.format, format_named(&name.value)?),
            // It spares PostgreSQL a later pass over the rows; there is no such pass here.
            CopyOption::Freeze(_) => Ok(()),
            CopyOption::Delimiter(c) => put(&mut self.delimiter, *c),
            CopyOption::Null(text) => put(&mut self.null, text.clone()),
            CopyOption::Header(present) => {
                put(&mut self.header, if *present { Header::Present } else { Header::Absent })
            }
            CopyOption::Quote(c) => put(&mut self.quote, *c),
            CopyOption::Escape(c) => put(&mut self.escape, *c),
            CopyOption::ForceQuote(columns) => put(&mut self.force_quote, names(columns)),
            CopyOption::ForceNotNull(columns) => put(&mut self.force_not_null, names(columns)),
            CopyOption::ForceNull(columns) => put(&mut self.force_null, names(columns)),
            CopyOption::Encoding(name) if name == HEADER_MATCH_MARK => {
                put(&mut self.header, Header::Matching)
            }
            CopyOption::Encoding(name) if name.starts_with(MAX_REJECTED_MARK) => {
                let number = name[MAX_REJECTED_MARK.len()..].parse().map_err(|_| {
                    let message = "COPY MAX_REJECTED is a number of rows that is not negative";
                    SqlError::new(SqlState::InvalidParameterValue, message)
                })?;
                put(&mut self.rejected_max, number)
            }
            CopyOption::Encoding(name) => put(&mut self.encoding, name.clone()),
        }
    }

    /// One without a list that PostgreSQL has not: those that it has are in a list when they come here.
    fn legacy(&mut self, option: &CopyLegacyOption) -> Result<(), SqlError> {
        match option {
            CopyLegacyOption::Parquet => put(&mut self.format, CopyFormat::Parquet),
            other => Err(unsupported(format!("COPY option {other} is not supported"))),
        }
    }
}

fn format_named(name: &str) -> Result<CopyFormat, SqlError> {
    match name.to_ascii_lowercase().as_str() {
        "text" => Ok(CopyFormat::Text),
        "csv" => Ok(CopyFormat::Csv),
        "parquet" => Ok(CopyFormat::Parquet),
        "arrow" => Ok(CopyFormat::Arrow),
        "binary" => Ok(CopyFormat::Binary),
        _ => Err(SqlError::new(
            SqlState::InvalidParameterValue,
            format!("COPY format \"{name}\" not recognized"),
        )),
    }
}

impl CopyOptions {
    /// The options of a statement.
    ///
    /// # Errors
    /// 42601 for one said twice, 22023 for a value that makes no sense, 0A000 for one that does not go with
    /// the format or is not supported.
    pub(crate) fn new(
        direction: CopyDirection,
        options: &[CopyOption],
        legacy: &[CopyLegacyOption],
    ) -> Result<Self, SqlError> {
        let mut said = Said::default();
        options.iter().try_for_each(|option| said.option(option))?;
        legacy.iter().try_for_each(|option| said.legacy(option))?;
        let format = said.format.unwrap_or(CopyFormat::Text);
        if format == CopyFormat::Arrow && direction == CopyDirection::From {
            return Err(
                unsupported("COPY FROM of the format arrow").with_hint("Load Parquet, CSV or binary.")
            );
        }
        refuse_misplaced(format, direction, &said)?;
        let csv = format == CopyFormat::Csv;
        let quote = one_byte("quote", said.quote.unwrap_or('"'))?;
        let options = Self {
            format,
            delimiter: one_byte("delimiter", said.delimiter.unwrap_or(if csv { ',' } else { '\t' }))?,
            null: said.null.unwrap_or_else(|| if csv { String::new() } else { "\\N".to_owned() }),
            header: said.header.unwrap_or(Header::Absent),
            quote,
            escape: said.escape.map_or(Ok(quote), |c| one_byte("escape", c))?,
            force_quote: said.force_quote.unwrap_or_default(),
            force_not_null: said.force_not_null.unwrap_or_default(),
            force_null: said.force_null.unwrap_or_default(),
            rejected_max: said.rejected_max,
        };
        options.check_characters()?;
        Ok(options)
    }

    /// Whether the options go with loading this table.
    ///
    /// # Errors
    /// `0A000` for what only brick tables know.
    pub(crate) fn check_table(&self, def: &TableDef) -> Result<(), SqlError> {
        if self.rejected_max.is_some() && def.bricks.is_none() {
            return Err(unsupported(format!(
                "COPY MAX_REJECTED needs a brick table, and \"{}\" is none",
                def.name.name
            )));
        }
        Ok(())
    }

    fn check_characters(&self) -> Result<(), SqlError> {
        let invalid = |message: &str| Err(SqlError::new(SqlState::InvalidParameterValue, message));
        if matches!(self.delimiter, b'\n' | b'\r') {
            return invalid("COPY delimiter cannot be newline or carriage return");
        }
        if self.null.contains(['\n', '\r']) {
            return invalid("COPY null representation cannot use newline or carriage return");
        }
        if self.null.as_bytes().contains(&self.delimiter) {
            return invalid("COPY delimiter character must not appear in the NULL specification");
        }
        match self.format {
            CopyFormat::Text if self.delimiter.is_ascii_lowercase() || self.delimiter.is_ascii_digit() => {
                invalid("COPY delimiter cannot be a letter or a digit")
            }
            CopyFormat::Text if matches!(self.delimiter, b'\\' | b'.') => {
                invalid("COPY delimiter cannot be a backslash or a point")
            }
            CopyFormat::Csv if self.delimiter == self.quote => {
                invalid("COPY delimiter and quote must be different")
            }
            CopyFormat::Csv if self.null.as_bytes().contains(&self.quote) => {
                invalid("CSV quote character must not appear in the NULL specification")
            }
            CopyFormat::Text
            | CopyFormat::Csv
            | CopyFormat::Binary
            | CopyFormat::Parquet
            | CopyFormat::Arrow => Ok(()),
        }
    }
}

fn one_byte(what: &str, c: char) -> Result<u8, SqlError> {
    u8::try_from(c)
        .ok()
        .filter(u8::is_ascii)
        .ok_or_else(|| unsupported(format!("COPY {what} must be a single one-byte character")))
}

fn refuse_misplaced(format: CopyFormat, direction: CopyDirection, said: &Said) -> Result<(), SqlError> {
    if let Some(name) = &said.encoding
        && !matches!(name.to_ascii_lowercase().as_str(), "utf8" | "utf-8" | "unicode")
    {
        return Err(unsupported(format!("COPY encoding \"{name}\" is not supported: only UTF8 is")));
    }
    let csv_only = [
        ("QUOTE", said.quote.is_some()),
        ("ESCAPE", said.escape.is_some()),
        ("FORCE_QUOTE", said.force_quote.is_some()),
        ("FORCE_NOT_NULL", said.force_not_null.is_some()),
        ("FORCE_NULL", said.force_null.is_some()),
    ];
    if let Some((name, _)) = csv_only.iter().find(|(_, said)| *said && format != CopyFormat::Csv) {
        return Err(unsupported(format!("COPY {name} requires CSV mode")));
    }
    let text_only = [
        ("DELIMITER", said.delimiter.is_some()),
        ("NULL", said.null.is_some()),
        ("HEADER", said.header.is_some()),
        ("MAX_REJECTED", said.rejected_max.is_some()),
    ];
    let format_name = match format {
        CopyFormat::Text | CopyFormat::Csv => None,
        CopyFormat::Binary => Some("binary"),
        CopyFormat::Parquet => Some("parquet"),
        CopyFormat::Arrow => Some("arrow"),
    };
    if let (Some((name, _)), Some(format)) = (text_only.iter().find(|(_, said)| *said), format_name) {
        return Err(unsupported(format!("COPY {name} cannot be used with the format {format}")));
    }
    if direction == CopyDirection::To && said.header == Some(Header::Matching) {
        return Err(unsupported("cannot use \"match\" with HEADER in COPY TO"));
    }
    let wrong_way = match direction {
        CopyDirection::From if said.force_quote.is_some() => Some(("FORCE_QUOTE", "COPY FROM")),
        CopyDirection::To if said.force_not_null.is_some() => Some(("FORCE_NOT_NULL", "COPY TO")),
        CopyDirection::To if said.rejected_max.is_some() => Some(("MAX_REJECTED", "COPY TO")),
        CopyDirection::To if said.force_null.is_some() => Some(("FORCE_NULL", "COPY TO")),
        CopyDirection::From | CopyDirection::To => None,
    };
    match wrong_way {
        Some((name, statement)) => Err(unsupported(format!("COPY {name} cannot be used with {statement}"))),
        None => Ok(()),
    }
}
