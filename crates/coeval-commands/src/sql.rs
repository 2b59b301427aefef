// SPDX-License-Identifier: Apache-2.0
//! `coeval sql`: statements from the command line, from files, from a pipe or from somebody at a terminal.

mod branches;
mod colour;
mod command;
mod completion;
mod describe;
mod history;
mod import;
mod input;
mod keywords;
mod listings;
mod look;
mod pager;
mod problem;
mod redirect;
mod repl;
mod shell;
mod splitter;
mod variables;
mod waiting;

use crate::arguments::SqlArguments;
use crate::directory::{self, Contents};
use crate::failure::Failure;
use crate::grid::Colours;
use coeval::{Database, TransactionStatus};
use look::Audience;
use problem::Origin;
use shell::{Flow, Shell};
use std::io::{IsTerminal, stdin, stdout};
use std::path::Path;

/// Opens the database and runs what there is to run.
///
/// # Errors
/// If the database cannot be opened, or a statement that nobody typed at a terminal fails.
pub(crate) fn run(arguments: &SqlArguments) -> Result<(), Failure> {
    let has_script = !arguments.commands.is_empty() || !arguments.files.is_empty();
    let is_conversation = !has_script && stdin().is_terminal() && stdout().is_terminal();
    let before = arguments.dir.as_deref().map(directory::look).transpose()?;
    let db = open(arguments)?;
    let mut shell = Shell::new(db, std::io::BufWriter::new(stdout()), audience());
    if is_conversation {
        print_welcome(&place(arguments.dir.as_deref(), before));
        return repl::converse(&mut shell);
    }
    let flow = if has_script { run_given(&mut shell, arguments)? } else { run_piped(&mut shell)? };
    if flow == Flow::Next && shell.transaction_status() != TransactionStatus::Idle {
        eprintln!("coeval: the transaction was not committed and is rolled back");
    }
    if flow == Flow::Failed { Err(Failure::Said) } else { Ok(()) }
}

fn open(arguments: &SqlArguments) -> Result<Database, Failure> {
    match &arguments.dir {
        Some(dir) if arguments.salvage => directory::open_with(dir, directory::salvaging()),
        Some(dir) => directory::open_with(dir, directory::options()),
        None => directory::options()
            .in_memory()
            .map_err(|error| Failure::work("cannot start a database in memory", error)),
    }
}

/// Runs the commands of the command line, then its files, up to the first failure.
fn run_given(shell: &mut Shell<'_>, arguments: &SqlArguments) -> Result<Flow, Failure> {
    for command in &arguments.commands {
        let flow = if command.trim_start().starts_with('\\') {
            shell.command(command)?
        } else {
            shell.run(command, Origin { file: None, line: 1 })?
        };
        // The rows of a COPY come from the standard input.
        let flow = if shell.takes_rows() { shell.take_copied_lines(&mut stdin().lock())? } else { flow };
        if flow != Flow::Next {
            return Ok(flow);
        }
    }
    for file in &arguments.files {
        let flow = match file.as_str() {
            "-" => run_piped(shell)?,
            file => shell.run_file(file)?,
        };
        if flow != Flow::Next {
            return Ok(flow);
        }
    }
    Ok(Flow::Next)
}

fn run_piped(shell: &mut Shell<'_>) -> Result<Flow, Failure> {
    shell.run_script(&mut stdin().lock(), "stdin")
}

fn audience() -> Audience {
    if !stdout().is_terminal() {
        return Audience::Program;
    }
    let wants_colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    Audience::Person(if wants_colours { Colours::On } else { Colours::Off })
}

fn print_welcome(place: &str) {
    println!("coeval {}: {place}\nType \\? for help, \\q to leave.\n", env!("CARGO_PKG_VERSION"));
}

/// Where the database is, and whether it was there before: else the name may have been mistyped.
fn place(dir: Option<&Path>, before: Option<Contents>) -> String {
    match (dir, before) {
        (Some(dir), Some(Contents::Nothing)) => format!("a new database in {}", dir.display()),
        (Some(dir), _) => format!("the database in {}", dir.display()),
        (None, _) => "a database in memory, which is gone when you leave".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_database_is_called_so() {
        let dir = Some(Path::new("shop"));
        assert_eq!(place(dir, Some(Contents::Nothing)), "a new database in shop");
        assert_eq!(place(dir, Some(Contents::Database)), "the database in shop");
        assert!(place(None, None).contains("in memory"));
    }
}
