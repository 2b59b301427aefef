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
use crate::directory;
use crate::failure::Failure;
use crate::grid::Colours;
use coeval::{Database, TransactionStatus};
use look::Audience;
use problem::Origin;
use shell::{Flow, Shell};
use std::io::{IsTerminal, stdin, stdout};

/// Opens the database and runs what there is to run.
///
/// # Errors
/// If the database cannot be opened, or a statement that nobody typed at a terminal fails.
pub(crate) fn run(arguments: &SqlArguments) -> Result<(), Failure> {
    let has_script = !arguments.commands.is_empty() || !arguments.files.is_empty();
    let is_conversation = !has_script && stdin().is_terminal() && stdout().is_terminal();
    let db = open(arguments)?;
    let mut shell = Shell::new(db, std::io::BufWriter::new(stdout()), audience());
    if is_conversation {
        print_welcome(arguments);
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

fn print_welcome(arguments: &SqlArguments) {
    let place = match &arguments.dir {
        Some(dir) => format!("the database in {}", dir.display()),
        None => "a database in memory, which is gone when you leave".to_owned(),
    };
    println!("coeval {}: {place}\nType \\? for help, \\q to leave.\n", env!("CARGO_PKG_VERSION"));
}
