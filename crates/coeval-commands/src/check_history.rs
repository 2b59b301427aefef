// SPDX-License-Identifier: Apache-2.0
//! `coeval check-history`: looks for anomalies in a history that clients have recorded.

use crate::arguments::CheckHistoryArguments;
use crate::failure::Failure;
use crate::readable::grouped;
use coeval_bench::histories::{History, anomalies};
use std::io::{Read, Write, stdin, stdout};
use std::path::Path;

/// Reads the file and prints what is in it.
///
/// # Errors
/// If it cannot be read, is no history, or has an anomaly that the level forbids.
pub(crate) fn run(arguments: &CheckHistoryArguments) -> Result<(), Failure> {
    let file = arguments.file.display();
    let text =
        read(&arguments.file).map_err(|error| Failure::work(format_args!("cannot read {file}"), error))?;
    let history = History::from_edn(&text).map_err(|error| Failure::work(&file, error))?;
    if history.transactions.is_empty() {
        return Err(Failure::Work(format!("{file} holds no transaction")));
    }
    let found = anomalies(&history);
    let mut out = stdout().lock();
    let (all, committed) = (history.transactions.len() as u64, history.committed() as u64);
    writeln!(out, "{} transactions, {} committed", grouped(all), grouped(committed))?;
    let mut forbidden = 0;
    for (anomaly, example) in &found {
        let is_allowed = anomaly.is_allowed(arguments.isolation);
        forbidden += usize::from(!is_allowed);
        let verdict = if is_allowed { "allowed" } else { "FORBIDDEN" };
        writeln!(out, "{} ({verdict}):\n{}", anomaly.name(), example.trim_end())?;
    }
    match forbidden {
        0 if found.is_empty() => writeln!(out, "clean: there is a serial order")?,
        0 => writeln!(out, "clean: the level allows all of it")?,
        _ => return Err(Failure::Said),
    }
    Ok(())
}

fn read(file: &Path) -> std::io::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        stdin().lock().read_to_string(&mut text)?;
        return Ok(text);
    }
    std::fs::read_to_string(file)
}
