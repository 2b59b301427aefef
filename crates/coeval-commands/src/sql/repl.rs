// SPDX-License-Identifier: Apache-2.0
//! The shell at a terminal: prompt, line editing, history, completion.

use super::command;
use super::completion::{WordCompleter, Words};
use super::history;
use super::input::Input;
use super::shell::{Flow, Shell};
use super::splitter::Waiting;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use coeval::TransactionStatus;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};

/// What ends the rows of a COPY.
const END_OF_ROWS: &str = "\\.";

/// What is typed, line by line.
type Lines = Editor<WordCompleter, FileHistory>;

/// Reads and runs until the user leaves.
///
/// # Errors
/// If the terminal cannot be used.
pub(crate) fn converse(shell: &mut Shell<'_>) -> Result<(), Failure> {
    let mut lines = open_lines().map_err(|error| Failure::work("cannot use the terminal", error))?;
    let history = history::path();
    if let Some(path) = &history {
        // There is none before the first time.
        let _ = lines.load_history(path);
    }
    let cancel = shell.session().cancel_handle();
    let notice = "Cancelling the statement; Ctrl-C once more ends coeval.";
    let stop = cancel.clone();
    let interrupt = Interrupt::watch_and(notice, move || stop.stop());
    let mut input = Input::new();
    // What has been typed since the last complete statement, as it goes into the history.
    let mut typed = String::new();
    loop {
        if let Some(completer) = lines.helper_mut() {
            completer.learn(Words::of(&shell.session().definitions()));
            completer.paint(shell.colours(), input.splitter.place());
        }
        let line = match lines.readline(&prompt(shell.transaction_status(), shell.waiting(&input))) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => {
                shell.interrupt(&mut input);
                typed.clear();
                continue;
            }
            Err(ReadlineError::Eof) if shell.takes_rows() => END_OF_ROWS.to_owned(),
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(Failure::work("cannot read from the terminal", error)),
        };
        // Rows are no part of a statement that would be typed again.
        if !shell.takes_rows() {
            if !typed.is_empty() {
                typed.push('\n');
            }
            typed.push_str(&line);
        }
        // What came before this line is over.
        interrupt.forget();
        cancel.go_on();
        let line = meant(line, shell.waiting(&input));
        let flow = shell.take_line(&mut input, &line, None)?;
        if shell.waiting(&input) == Waiting::Statement {
            remember(&mut lines, history.as_deref(), typed.trim());
            typed.clear();
            // Lines of errors count from the statement, not from the beginning of the conversation.
            input.count_anew();
        }
        if flow == Flow::Quit {
            break;
        }
    }
    Ok(())
}

fn open_lines() -> Result<Lines, ReadlineError> {
    let config = Config::builder()
        .max_history_size(history::ENTRIES_MAX)?
        .history_ignore_dups(true)?
        .history_ignore_space(true)
        .completion_type(CompletionType::List)
        .build();
    let mut lines = Lines::with_config(config)?;
    lines.set_helper(Some(WordCompleter::default()));
    Ok(lines)
}

/// Puts a statement into the history. A history that cannot be written is not worth an interruption.
fn remember(lines: &mut Lines, path: Option<&std::path::Path>, statement: &str) {
    let is_new = !statement.is_empty() && lines.add_history_entry(statement).unwrap_or(false);
    if let Some(path) = path
        && is_new
    {
        let _ = lines.append_history(path);
    }
}

/// What a line is taken for: `help`, `quit` and `exit` are commands where a statement may begin, and may be words of a
/// statement that has begun, which is said.
fn meant(line: String, waiting: Waiting) -> String {
    let Some(command) = command::of_word(&line) else { return line };
    match waiting {
        Waiting::Statement => command.to_owned(),
        Waiting::Rest | Waiting::Text | Waiting::Name | Waiting::Dollar | Waiting::Comment => {
            eprintln!("{} belongs to the statement that has begun; Ctrl-C drops that", line.trim());
            line
        }
        Waiting::Branch | Waiting::Rows => line,
    }
}

/// `coeval=>`; a star inside of a transaction, an exclamation mark in a failed one, and what is waited for in place
/// of the equals sign.
fn prompt(status: TransactionStatus, waiting: Waiting) -> String {
    let waits_for = match waiting {
        Waiting::Statement => '=',
        Waiting::Rest => '-',
        Waiting::Text => '\'',
        Waiting::Name => '"',
        Waiting::Dollar => '$',
        Waiting::Comment => '*',
        Waiting::Branch => '@',
        Waiting::Rows => return ">> ".to_owned(),
    };
    let status = match status {
        TransactionStatus::Idle => "",
        TransactionStatus::Active => "*",
        TransactionStatus::Failed => "!",
    };
    format!("coeval{waits_for}{status}> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_words_are_commands_where_a_statement_may_begin() {
        let meant = |line: &str, waiting| meant(line.to_owned(), waiting);
        assert_eq!(meant("quit", Waiting::Statement), "\\q");
        assert_eq!(meant("help;", Waiting::Statement), "\\?");
        assert_eq!(meant("SELECT 1;", Waiting::Statement), "SELECT 1;");
        assert_eq!(meant("quit", Waiting::Rest), "quit");
        assert_eq!(meant("exit", Waiting::Rows), "exit");
    }

    #[test]
    fn the_prompt_shows_transaction_and_what_is_waited_for() {
        assert_eq!(prompt(TransactionStatus::Idle, Waiting::Statement), "coeval=> ");
        assert_eq!(prompt(TransactionStatus::Active, Waiting::Statement), "coeval=*> ");
        assert_eq!(prompt(TransactionStatus::Failed, Waiting::Statement), "coeval=!> ");
        assert_eq!(prompt(TransactionStatus::Idle, Waiting::Rest), "coeval-> ");
        assert_eq!(prompt(TransactionStatus::Active, Waiting::Text), "coeval'*> ");
        assert_eq!(prompt(TransactionStatus::Idle, Waiting::Branch), "coeval@> ");
        assert_eq!(prompt(TransactionStatus::Idle, Waiting::Rows), ">> ");
    }
}
