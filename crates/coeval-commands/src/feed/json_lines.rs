// SPDX-License-Identifier: Apache-2.0
//! A feed as lines of JSON.

use super::output::Writer;
use coeval::{ChangeAsJson, ChangeToken, FedChange, FedTransaction, LogTime};
use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};

/// See the module.
pub(super) struct JsonLines<W: Write> {
    out: BufWriter<W>,
    /// The last line without its end; none if it has been written.
    held: Option<String>,
}

impl<W: Write> JsonLines<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out: BufWriter::with_capacity(1 << 16, out), held: None }
    }

    fn write_held(&mut self, rest: &str) -> io::Result<()> {
        match self.held.take() {
            Some(line) => writeln!(self.out, "{line}{rest}}}"),
            None => Ok(()),
        }
    }
}

/// `2026-11-23T10:00:00.000007Z`
fn moment(time: LogTime) -> String {
    time.to_string().replacen(' ', "T", 1).replace(" UTC", "Z")
}

impl<W: Write> Writer for JsonLines<W> {
    fn change(&mut self, transaction: &FedTransaction, change: &FedChange<'_>) -> io::Result<()> {
        self.write_held("")?;
        let name = &change.table().name;
        let name = serde_json::Value::String(format!("{}.{}", name.schema, name.name));
        let ChangeAsJson { operation, key, before, after } = ChangeAsJson::of(change);
        let mut line = format!("{{\"table\":{name},\"operation\":\"{operation}\"");
        for (field, value) in [("key", key), ("before", before), ("after", after)] {
            // Writing to a String cannot fail.
            let _ = write!(line, ",\"{field}\":{}", value.as_deref().unwrap_or("null"));
        }
        let FedTransaction { version, position, time, .. } = transaction;
        let _ = write!(line, ",\"version\":{version},\"position\":{position},\"committed_at\":");
        match time {
            Some(time) => drop(write!(line, "\"{}\"", moment(*time))),
            None => line.push_str("null"),
        }
        self.held = Some(line);
        Ok(())
    }

    fn token(&mut self, token: &ChangeToken) -> io::Result<()> {
        self.write_held(&format!(",\"token\":\"{token}\""))
    }

    fn token_alone(&mut self, token: &ChangeToken) -> io::Result<()> {
        writeln!(self.out, "{{\"token\":\"{token}\"}}")
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        // A transaction that has not ended counts for nothing.
        self.held = None;
        self.out.flush()
    }
}
