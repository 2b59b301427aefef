// SPDX-License-Identifier: Apache-2.0
//! One session with its output: runs statements and commands, prints what comes back.

use super::command::{self, Command, Import, Turn};
use super::describe::{self, Found, NamePattern};
use super::import;
use super::listings;
use super::pager::{Pager, paged};
use super::problem::{Origin, describe as describe_problem};
use super::splitter::{Splitter, Waiting};
use super::waiting::Patience;
use crate::cells::ResultCells;
use crate::failure::Failure;
use crate::grid::{Colours, aligned_width, print_aligned, print_expanded};
use arrow::datatypes::SchemaRef;
use chrono_tz::Tz;
use coeval::{
    CommandTag, Database, Error, QualifiedName, RowSet, Session, StatementResult, TransactionStatus,
};
use std::io::{BufRead, IsTerminal, Write};
use std::time::{Duration, Instant};

/// How deep files may include each other.
const INCLUDE_DEPTH_MAX: usize = 16;

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// With the next statement.
    Next,
    /// A statement or command failed, and said why.
    Failed,
    /// The user asked to leave.
    Quit,
}

/// Whether rows are printed with a line for each column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expanded {
    On,
    Off,
    /// When they are wider than the terminal.
    Auto,
}

/// Whether each statement says how long it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timing {
    On,
    Off,
}

/// Whom the output is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Somebody at a terminal, with colours or without.
    Person(Colours),
    /// A file or a program.
    Program,
}

/// How results are shown.
#[derive(Clone, Copy, Debug)]
struct Look {
    audience: Audience,
    expanded: Expanded,
    zone: Tz,
}

impl Look {
    fn print(self, out: &mut dyn Write, result: &StatementResult) -> Result<(), Failure> {
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

/// A session and how its results are shown.
pub(crate) struct Shell<'o> {
    db: Database,
    session: Session,
    out: Box<dyn Write + 'o>,
    audience: Audience,
    expanded: Expanded,
    timing: Timing,
    pager: Pager,
    include_depth: usize,
    /// The last text of statements that succeeded, for `\watch`.
    last: Option<String>,
}

impl<'o> Shell<'o> {
    /// A new session on the database that prints to `out`.
    pub(crate) fn new(db: Database, out: impl Write + 'o, audience: Audience) -> Self {
        let session = db.session();
        let pager = match audience {
            Audience::Person(_) => Pager::On,
            Audience::Program => Pager::Off,
        };
        Self {
            db,
            session,
            out: Box::new(out),
            audience,
            expanded: Expanded::Off,
            timing: Timing::Off,
            pager,
            include_depth: 0,
            last: None,
        }
    }

    /// Where the session stands.
    pub(crate) fn transaction_status(&self) -> TransactionStatus {
        self.session.transaction_status()
    }

    /// Whether the output has colours.
    pub(crate) fn colours(&self) -> Colours {
        match self.audience {
            Audience::Person(colours) => colours,
            Audience::Program => Colours::Off,
        }
    }

    /// The session.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Runs SQL and prints its results, or says on stderr why it failed.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub(crate) fn run(&mut self, sql: &str, origin: Origin<'_>) -> Result<Flow, Failure> {
        let started = Instant::now();
        let outcome = {
            let is_watched = matches!(self.audience, Audience::Person(_));
            let _patience = is_watched.then(|| Patience::begin(self.session.cancel_handle()));
            self.session.run(sql)
        };
        let took = started.elapsed();
        let flow = match outcome {
            Ok(results) => {
                self.print_results(&results)?;
                self.last = Some(sql.to_owned());
                Flow::Next
            }
            Err(error) => {
                // What was printed before belongs in front of the error.
                self.out.flush()?;
                self.complain(&error, sql, origin);
                Flow::Failed
            }
        };
        if self.timing == Timing::On {
            writeln!(self.out, "Time: {}", duration_text(took))?;
        }
        self.out.flush()?;
        Ok(flow)
    }

    /// Says on stderr why a statement failed.
    fn complain(&self, error: &Error, sql: &str, origin: Origin<'_>) {
        let colours = if std::io::stderr().is_terminal() { self.colours() } else { Colours::Off };
        eprint!("{}", describe_problem(error, sql, origin, colours));
    }

    /// Prints results, through a pager if they are longer than the screen.
    fn print_results(&mut self, results: &[StatementResult]) -> Result<(), Failure> {
        let look =
            Look { audience: self.audience, expanded: self.expanded, zone: self.session.settings().zone() };
        if self.pager == Pager::Off {
            return results.iter().try_for_each(|result| look.print(&mut self.out, result));
        }
        let mut text = Vec::new();
        results.iter().try_for_each(|result| look.print(&mut text, result))?;
        Ok(paged(&text, &mut self.out)?)
    }

    /// Runs a line that begins with a backslash.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub(crate) fn command(&mut self, line: &str) -> Result<Flow, Failure> {
        let flow = match command::parse(line) {
            Ok(command) => self.run_command(command)?,
            Err(message) => {
                eprintln!("{message}");
                Flow::Failed
            }
        };
        self.out.flush()?;
        Ok(flow)
    }

    fn run_command(&mut self, command: Command) -> Result<Flow, Failure> {
        match command {
            Command::Quit => return Ok(Flow::Quit),
            Command::Help => write!(self.out, "{}", command::HELP)?,
            Command::Echo(text) => writeln!(self.out, "{text}")?,
            // The caller holds what was typed and has dropped it.
            Command::Reset => {}
            Command::Timing(turn) => {
                self.timing = match (turn, self.timing) {
                    (Turn::On, _) | (Turn::Over, Timing::Off) => Timing::On,
                    (Turn::Off | Turn::Auto, _) | (Turn::Over, Timing::On) => Timing::Off,
                };
                let state = if self.timing == Timing::On { "on" } else { "off" };
                writeln!(self.out, "Timing is {state}.")?;
            }
            Command::Expanded(turn) => {
                self.expanded = match (turn, self.expanded) {
                    (Turn::On, _) | (Turn::Over, Expanded::Off) => Expanded::On,
                    (Turn::Off, _) | (Turn::Over, Expanded::On | Expanded::Auto) => Expanded::Off,
                    (Turn::Auto, _) => Expanded::Auto,
                };
                let state = match self.expanded {
                    Expanded::On => "on",
                    Expanded::Off => "off",
                    Expanded::Auto => "on when rows are wider than the terminal",
                };
                writeln!(self.out, "Expanded display is {state}.")?;
            }
            Command::List(kind, pattern) => {
                let pattern = pattern.as_deref().map(NamePattern::parse);
                describe::list(&mut self.out, &self.session.definitions(), kind, pattern.as_ref())?;
            }
            Command::Describe(pattern) => return self.describe(&pattern),
            Command::Include(file) => return self.include(&file),
            Command::Watch(pause) => return self.watch(pause),
            Command::Pager(turn) => {
                self.pager = match (turn, self.pager) {
                    (Turn::On, _) | (Turn::Over, Pager::Off) => Pager::On,
                    (Turn::Off | Turn::Auto, _) | (Turn::Over, Pager::On) => Pager::Off,
                };
                let state = if self.pager == Pager::On { "on" } else { "off" };
                writeln!(self.out, "The pager is {state}.")?;
            }
            Command::Roles => return self.ask(listings::ROLES),
            Command::Types => return self.ask(listings::TYPES),
            Command::Databases => return self.ask(listings::DATABASES),
            Command::Sizes(of, pattern) => return self.ask(&listings::sizes(of, pattern.as_deref())),
            Command::Rights(pattern) => return self.ask(&listings::rights(pattern.as_deref())),
            Command::Import(import) => return self.import(&import),
            Command::Edit => return self.edit(),
        }
        Ok(Flow::Next)
    }

    /// Shows what the catalog says, in the open transaction. It is not what `\watch` runs again.
    fn ask(&mut self, sql: &str) -> Result<Flow, Failure> {
        let last = self.last.take();
        let flow = self.run(sql, Origin { file: None, line: 1 });
        self.last = last;
        flow
    }

    /// The last statement, through the user's editor; what comes of it is run.
    fn edit(&mut self) -> Result<Flow, Failure> {
        let file = tempfile::Builder::new().prefix("coeval-").suffix(".sql").tempfile()?;
        let last = self.last.as_ref().map_or_else(String::new, |sql| format!("{sql};\n"));
        std::fs::write(file.path(), last)?;
        self.out.flush()?;
        let editor = ["VISUAL", "EDITOR"].into_iter().find_map(|name| std::env::var(name).ok());
        let editor = editor.filter(|editor| !editor.trim().is_empty()).unwrap_or_else(|| "vi".to_owned());
        let editing = std::process::Command::new("sh")
            .args(["-c", &format!("{editor} \"$0\"")])
            .arg(file.path())
            .status()?;
        if !editing.success() {
            eprintln!("nothing is run: {editor} ended with {editing}");
            return Ok(Flow::Failed);
        }
        self.run_file(&file.path().display().to_string())
    }

    fn describe(&mut self, text: &str) -> Result<Flow, Failure> {
        // In a session of its own: what goes wrong with a view is no fault of the open transaction.
        let mut session = self.db.session();
        let mut columns_of = |name: &QualifiedName| columns_of(&mut session, name);
        let pattern = NamePattern::parse(text);
        let definitions = self.session.definitions();
        let found = describe::describe(&mut self.out, &definitions, &pattern, &mut columns_of)?;
        if found == Found::Nothing {
            self.out.flush()?;
            eprintln!("there is no table, view, index or sequence named {text}");
            return Ok(Flow::Failed);
        }
        Ok(Flow::Next)
    }

    /// Runs the last statement again and again, until Ctrl-C or a failure.
    fn watch(&mut self, pause: Duration) -> Result<Flow, Failure> {
        let Some(sql) = self.last.clone() else {
            eprintln!("\\watch runs the last statement again: there is none yet");
            return Ok(Flow::Failed);
        };
        let clock = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let (pager, cancel) = (self.pager, self.session.cancel_handle());
        // Nobody pages through what is about to be shown anew.
        self.pager = Pager::Off;
        let flow = loop {
            let now = chrono::Local::now().format("%F %T");
            writeln!(self.out, "{now} (every {} s)\n", pause.as_secs_f64())?;
            let flow = self.run(&sql, Origin { file: None, line: 1 })?;
            if flow != Flow::Next && cancel.requested().is_none() {
                break flow;
            }
            let waited = async { tokio::time::timeout(pause, cancel.cancelled()).await };
            if clock.block_on(waited).is_ok() {
                break Flow::Next;
            }
        };
        self.pager = pager;
        Ok(flow)
    }

    fn import(&mut self, wanted: &Import) -> Result<Flow, Failure> {
        match import::statement(&mut self.session, wanted) {
            Ok(sql) => self.run(&sql, Origin { file: None, line: 1 }),
            Err(error) => {
                self.out.flush()?;
                self.complain(&error, "", Origin { file: None, line: 1 });
                Ok(Flow::Failed)
            }
        }
    }

    fn include(&mut self, file: &str) -> Result<Flow, Failure> {
        if self.include_depth == INCLUDE_DEPTH_MAX {
            eprintln!("{file} is not read: files include each other more than {INCLUDE_DEPTH_MAX} deep");
            return Ok(Flow::Failed);
        }
        self.include_depth += 1;
        let flow = self.run_file(file);
        self.include_depth -= 1;
        // To leave a file is not to leave the shell.
        flow.map(|flow| if flow == Flow::Quit { Flow::Next } else { flow })
    }

    /// Runs a file up to its end or the first failure.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub(crate) fn run_file(&mut self, file: &str) -> Result<Flow, Failure> {
        match std::fs::File::open(file) {
            Ok(opened) => self.run_script(&mut std::io::BufReader::new(opened), file),
            Err(error) => {
                eprintln!("cannot read {file}: {error}");
                Ok(Flow::Failed)
            }
        }
    }

    /// Runs the statements and commands of a text up to its end or the first failure.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub(crate) fn run_script(&mut self, text: &mut dyn BufRead, name: &str) -> Result<Flow, Failure> {
        let mut splitter = Splitter::new();
        let mut line = String::new();
        loop {
            line.clear();
            match text.read_line(&mut line) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => {
                    eprintln!("cannot read {name}: {error}");
                    return Ok(Flow::Failed);
                }
            }
            let flow = self.take_line(&mut splitter, line.trim_end_matches(['\n', '\r']), Some(name))?;
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        match splitter.finish() {
            Some(rest) => self.run(&rest.text, Origin { file: Some(name), line: rest.line }),
            None => Ok(Flow::Next),
        }
    }

    /// Takes in a line and runs what is complete, up to the first failure; what comes behind a failure on the same
    /// line is dropped.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub(crate) fn take_line(
        &mut self,
        splitter: &mut Splitter,
        line: &str,
        file: Option<&str>,
    ) -> Result<Flow, Failure> {
        let is_command = line.trim_start().starts_with('\\') && splitter.takes_commands()
            || command::is_pointed(line) && splitter.waiting() == Waiting::Statement;
        if is_command {
            if matches!(command::parse(line), Ok(Command::Reset)) {
                splitter.clear();
            }
            splitter.pass_line();
            return self.command(line);
        }
        splitter.push_line(line);
        while let Some(statement) = splitter.next_statement() {
            let flow = self.run(&statement.text, Origin { file, line: statement.line })?;
            if flow != Flow::Next {
                splitter.clear();
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }
}

/// The columns of a view, if it can be queried.
fn columns_of(session: &mut Session, name: &QualifiedName) -> Option<SchemaRef> {
    let quoted = |part: &str| format!("\"{}\"", part.replace('"', "\"\""));
    let sql = format!("SELECT * FROM {}.{} LIMIT 0", quoted(&name.schema), quoted(&name.name));
    let mut results = session.run(&sql).ok()?;
    Some(results.pop()?.rows?.schema)
}

/// `1.234 ms`, and from a minute on the minutes too.
fn duration_text(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let milliseconds = duration.as_secs_f64() * 1_000.0;
    if seconds < 60 {
        return format!("{milliseconds:.3} ms");
    }
    format!("{milliseconds:.3} ms ({}:{:02})", seconds / 60, seconds % 60)
}
