// SPDX-License-Identifier: Apache-2.0
//! One session with its output: runs statements and commands, prints what comes back.

mod copying;
mod delivery;

use super::branches::Turning;
use super::command::{self, Command, Echo, EchoInto, FoundFrom, Import, Turn};
use super::describe::{self, Found, NamePattern};
use super::import;
use super::input::Input;
use super::listings;
use super::look::{Audience, Expanded, Look};
use super::pager::{Pager, paged};
use super::problem::{Origin, describe as describe_problem};
use super::redirect::Redirect;
use super::splitter::{Token, Waiting};
use super::variables::{ON_ERROR_STOP, Variables, truth};
use super::waiting::Patience;
use crate::failure::Failure;
use crate::grid::Colours;
use arrow::datatypes::SchemaRef;
use coeval::{Database, Error, QualifiedName, Session, StatementResult, TransactionStatus};
use copying::{Copying, is_copy};
use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;
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

/// Whether each statement says how long it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timing {
    On,
    Off,
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
    /// The file and the line of the command that runs, if it stands in a text.
    command_at: Option<(String, usize)>,
    variables: Variables,
    /// Where results go, if not to where all else is printed.
    redirect: Option<Redirect>,
    /// The COPY whose rows are the next lines.
    copying: Option<Copying>,
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
            command_at: None,
            variables: Variables::new(),
            redirect: None,
            copying: None,
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

    /// Runs SQL, with the values of variables in their places, and prints its results, or says on stderr why it failed.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub(crate) fn run(&mut self, sql: &str, origin: Origin<'_>) -> Result<Flow, Failure> {
        let sql = self.variables.interpolated(sql);
        if is_copy(&sql) { self.run_copy(&sql, origin) } else { self.run_text(&sql, origin) }
    }

    /// Runs SQL as it is, and prints its results.
    fn run_text(&mut self, sql: &str, origin: Origin<'_>) -> Result<Flow, Failure> {
        self.run_for(sql, origin, |shell, results| {
            shell.print_results(results)?;
            Ok(Flow::Next)
        })
    }

    /// Runs SQL as it is, and does this with its results.
    fn run_for(
        &mut self,
        sql: &str,
        origin: Origin<'_>,
        use_results: impl FnOnce(&mut Self, &[StatementResult]) -> Result<Flow, Failure>,
    ) -> Result<Flow, Failure> {
        let started = Instant::now();
        let outcome = {
            let _patience = self.patience();
            self.session.run(sql)
        };
        let took = started.elapsed();
        let flow = match outcome {
            Ok(results) => {
                self.note_rows(results.last().and_then(|result| result.tag.rows()));
                self.last = Some(sql.to_owned());
                use_results(self, &results)?
            }
            Err(error) => {
                self.note_failure(&error);
                // What was printed before belongs in front of the error.
                self.out.flush()?;
                self.complain(&error, sql, origin);
                Flow::Failed
            }
        };
        self.say_time(took)?;
        Ok(flow)
    }

    /// Says how long a statement took, if that is wanted.
    fn say_time(&mut self, took: Duration) -> Result<(), Failure> {
        if self.timing == Timing::On {
            writeln!(self.out, "Time: {}", duration_text(took))?;
        }
        self.results_out().flush()?;
        Ok(self.out.flush()?)
    }

    /// Shows that a statement runs, until this is dropped, to somebody who waits for it.
    fn patience(&self) -> Option<Patience> {
        let is_watched = matches!(self.audience, Audience::Person(_));
        is_watched.then(|| Patience::begin(self.session.cancel_handle()))
    }

    /// Variables say that a statement has ended well, and how many rows it is about.
    fn note_rows(&mut self, rows: Option<u64>) {
        self.variables.note("ERROR", "false");
        self.variables.note("SQLSTATE", "00000");
        self.variables.note("ROW_COUNT", &rows.unwrap_or(0).to_string());
    }

    /// Variables say that a statement has failed, and why.
    fn note_failure(&mut self, error: &Error) {
        let state = error.state().code();
        self.variables.note("ERROR", "true");
        self.variables.note("SQLSTATE", state);
        self.variables.note("ROW_COUNT", "0");
        self.variables.note("LAST_ERROR_SQLSTATE", state);
        self.variables.note("LAST_ERROR_MESSAGE", &error.to_string());
    }

    /// Says on stderr why a statement failed, that of a command where this stands.
    fn complain(&self, error: &Error, sql: &str, origin: Origin<'_>) {
        let origin = match &self.command_at {
            Some((file, line)) if origin.file.is_none() => Origin { file: Some(file.as_str()), line: *line },
            Some(_) | None => origin,
        };
        let colours = if std::io::stderr().is_terminal() { self.colours() } else { Colours::Off };
        eprint!("{}", describe_problem(error, sql, origin, colours));
    }

    /// Says on stderr why a command failed, and where it stands.
    fn say(&self, message: &str) {
        match &self.command_at {
            Some((file, line)) => eprintln!("{file}:{line}: {message}"),
            None => eprintln!("{message}"),
        }
    }

    /// Where results are printed.
    fn results_out(&mut self) -> &mut dyn Write {
        match &mut self.redirect {
            Some(redirect) => redirect,
            None => &mut self.out,
        }
    }

    /// Prints results, through a pager if they are longer than the screen.
    fn print_results(&mut self, results: &[StatementResult]) -> Result<(), Failure> {
        let is_redirected = self.redirect.is_some();
        let audience = if is_redirected { Audience::Program } else { self.audience };
        let look = Look { audience, expanded: self.expanded, zone: self.session.settings().zone() };
        if self.pager == Pager::Off || is_redirected {
            let out = self.results_out();
            return results.iter().try_for_each(|result| look.print(out, result));
        }
        let mut text = Vec::new();
        results.iter().try_for_each(|result| look.print(&mut text, result))?;
        Ok(paged(&text, &mut self.out)?)
    }

    /// Runs one command, from its backslash on.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub(crate) fn command(&mut self, line: &str) -> Result<Flow, Failure> {
        self.take_line(&mut Input::new(), line, None)
    }

    /// Runs a command that stands in a text.
    fn take_command(&mut self, line: &str, input: &mut Input, file: Option<&str>) -> Result<Flow, Failure> {
        let at = file.map(|file| (file.to_owned(), input.splitter.line()));
        // A file that a command names has commands of its own.
        let around = std::mem::replace(&mut self.command_at, at);
        let flow = self.obey(line, input, file);
        self.command_at = around;
        flow
    }

    /// Runs a command, which `command_at` tells the place of.
    fn obey(&mut self, line: &str, input: &mut Input, file: Option<&str>) -> Result<Flow, Failure> {
        let name = line.split_whitespace().next().unwrap_or_default();
        if let Some(turning) = Turning::of(name.trim_end_matches(';')) {
            return Ok(self.turn(turning, line, input));
        }
        if !input.branches.is_run() {
            return Ok(Flow::Next);
        }
        let flow = match command::parse(line, &self.variables) {
            Ok(Command::Reset) => {
                drop(input.splitter.take_begun());
                Flow::Next
            }
            Ok(Command::Go(delivery)) => {
                let begun = input.splitter.take_begun();
                let line = begun.as_ref().map_or(1, |piece| piece.line);
                match begun.map(|piece| piece.text).or_else(|| self.last.clone()) {
                    Some(sql) => self.deliver(&sql, Origin { file, line }, &delivery)?,
                    None => {
                        self.say(&format!(
                            "{name} runs the statement in front of it, or the last one: there is none yet"
                        ));
                        Flow::Failed
                    }
                }
            }
            Ok(command) => self.run_command(command, file)?,
            Err(message) => {
                self.say(&message);
                Flow::Failed
            }
        };
        self.out.flush()?;
        Ok(flow)
    }

    /// Begins or ends a branch.
    fn turn(&mut self, turning: Turning, line: &str, input: &mut Input) -> Flow {
        let holds = input.branches.asks(turning) && self.condition(line);
        if let Err(message) = input.branches.turn(turning, holds.into()) {
            self.say(&message);
            return Flow::Failed;
        }
        if input.branches.is_run() {
            input.splitter.resume();
        } else {
            input.splitter.skip();
        }
        Flow::Next
    }

    /// Whether the condition of an `\if` holds. What says neither yes nor no does not.
    fn condition(&self, line: &str) -> bool {
        let text = match command::condition(line, &self.variables) {
            Ok(text) => text,
            Err(message) => {
                self.say(&message);
                return false;
            }
        };
        truth(&text).unwrap_or_else(|| {
            self.say(&format!("unrecognized value \"{text}\" for \"\\if expression\": Boolean expected"));
            false
        })
    }

    fn run_command(&mut self, command: Command, file: Option<&str>) -> Result<Flow, Failure> {
        match command {
            Command::Quit => return Ok(Flow::Quit),
            Command::Help => write!(self.out, "{}", command::HELP)?,
            Command::Echo(echo) => self.echo(&echo)?,
            // The caller holds what was typed, and has done it.
            Command::Reset | Command::Go(_) => {}
            Command::Output(target) => return self.redirect(target.as_deref()),
            Command::Set(name, value) => {
                if let Err(message) = self.variables.set(&name, value) {
                    self.say(&message);
                    return Ok(Flow::Failed);
                }
            }
            Command::ShowVariables => {
                for (name, value) in self.variables.iter() {
                    writeln!(self.out, "{name} = '{value}'")?;
                }
            }
            Command::Unset(name) => self.variables.unset(&name),
            Command::Copy(copy) => return self.copy(&copy, file),
            Command::Timing(turn) => self.switch_timing(turn)?,
            Command::Expanded(turn) => self.switch_expanded(turn)?,
            Command::Pager(turn) => self.switch_pager(turn)?,
            Command::List(kind, pattern) => {
                let pattern = pattern.as_deref().map(NamePattern::parse);
                let definitions = self.session.definitions();
                describe::list(self.results_out(), &definitions, kind, pattern.as_ref())?;
            }
            Command::Describe(pattern) => return self.describe(&pattern),
            Command::Include(name, from) => return self.include(&name, from, file),
            Command::Watch(pause) => return self.watch(pause),
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

    fn switch_timing(&mut self, turn: Turn) -> Result<(), Failure> {
        self.timing = match (turn, self.timing) {
            (Turn::On, _) | (Turn::Over, Timing::Off) => Timing::On,
            (Turn::Off | Turn::Auto, _) | (Turn::Over, Timing::On) => Timing::Off,
        };
        let state = if self.timing == Timing::On { "on" } else { "off" };
        Ok(writeln!(self.out, "Timing is {state}.")?)
    }

    fn switch_expanded(&mut self, turn: Turn) -> Result<(), Failure> {
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
        Ok(writeln!(self.out, "Expanded display is {state}.")?)
    }

    fn switch_pager(&mut self, turn: Turn) -> Result<(), Failure> {
        self.pager = match (turn, self.pager) {
            (Turn::On, _) | (Turn::Over, Pager::Off) => Pager::On,
            (Turn::Off | Turn::Auto, _) | (Turn::Over, Pager::On) => Pager::Off,
        };
        let state = if self.pager == Pager::On { "on" } else { "off" };
        Ok(writeln!(self.out, "The pager is {state}.")?)
    }

    fn echo(&mut self, echo: &Echo) -> Result<(), Failure> {
        match echo.into {
            EchoInto::Output => self.out.write_all(echo.text.as_bytes())?,
            EchoInto::Results => self.results_out().write_all(echo.text.as_bytes())?,
            EchoInto::Errors => {
                self.out.flush()?;
                eprint!("{}", echo.text);
            }
        }
        Ok(())
    }

    /// From now on results go there, or to where all else is printed.
    fn redirect(&mut self, target: Option<&str>) -> Result<Flow, Failure> {
        self.out.flush()?;
        if let Some(mut before) = self.redirect.take() {
            before.close()?;
        }
        match target.map(Redirect::open).transpose() {
            Ok(redirect) => {
                self.redirect = redirect;
                Ok(Flow::Next)
            }
            Err(error) => {
                self.say(&format!("{}: {error}", target.unwrap_or_default()));
                Ok(Flow::Failed)
            }
        }
    }

    /// Shows what the catalog says, in the open transaction. It is not what `\watch` runs again, nor what variables are
    /// about.
    fn ask(&mut self, sql: &str) -> Result<Flow, Failure> {
        let before = (self.last.take(), self.variables.clone());
        let flow = self.run_text(sql, Origin { file: None, line: 1 });
        (self.last, self.variables) = before;
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
            self.say(&format!("nothing is run: {editor} ended with {editing}"));
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
        let found = describe::describe(self.results_out(), &definitions, &pattern, &mut columns_of)?;
        if found == Found::Nothing {
            self.out.flush()?;
            self.say(&format!("there is no table, view, index or sequence named {text}"));
            return Ok(Flow::Failed);
        }
        Ok(Flow::Next)
    }

    /// Runs the last statement again and again, until Ctrl-C or a failure.
    fn watch(&mut self, pause: Duration) -> Result<Flow, Failure> {
        let Some(sql) = self.last.clone() else {
            self.say("\\watch runs the last statement again: there is none yet");
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
            Ok(sql) => self.run_text(&sql, Origin { file: None, line: 1 }),
            Err(error) => {
                self.out.flush()?;
                self.complain(&error, "", Origin { file: None, line: 1 });
                Ok(Flow::Failed)
            }
        }
    }

    /// Runs the file of this name; `by` is the one that names it.
    fn include(&mut self, name: &str, from: FoundFrom, by: Option<&str>) -> Result<Flow, Failure> {
        let folder = match from {
            FoundFrom::Here => None,
            FoundFrom::Script => by.and_then(|by| Path::new(by).parent()),
        };
        let file = folder.map_or_else(|| name.to_owned(), |folder| folder.join(name).display().to_string());
        if self.include_depth == INCLUDE_DEPTH_MAX {
            self.say(&format!(
                "{file} is not read: files include each other more than {INCLUDE_DEPTH_MAX} deep"
            ));
            return Ok(Flow::Failed);
        }
        self.include_depth += 1;
        let flow = self.run_file(&file);
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
                self.say(&format!("cannot read {file}: {error}"));
                Ok(Flow::Failed)
            }
        }
    }

    /// Runs the statements and commands of a text up to its end or the first failure.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub(crate) fn run_script(&mut self, text: &mut dyn BufRead, name: &str) -> Result<Flow, Failure> {
        let mut input = Input::new();
        let mut line = String::new();
        loop {
            line.clear();
            match text.read_line(&mut line) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => {
                    self.give_up_copying();
                    self.say(&format!("cannot read {name}: {error}"));
                    return Ok(Flow::Failed);
                }
            }
            let flow = self.take_line(&mut input, line.trim_end_matches(['\n', '\r']), Some(name))?;
            if flow != Flow::Next && !self.goes_on_after(flow) {
                self.give_up_copying();
                return Ok(flow);
            }
        }
        self.finish_script(&mut input, name)
    }

    /// Runs what is left of a text when nothing more comes in.
    fn finish_script(&mut self, input: &mut Input, name: &str) -> Result<Flow, Failure> {
        let mut flow = Flow::Next;
        if self.takes_rows() {
            flow = self.end_copied()?;
            if flow == Flow::Next || self.goes_on_after(flow) {
                flow = self.work_off(input, Some(name))?;
            }
        }
        if flow != Flow::Next && !self.goes_on_after(flow) {
            return Ok(flow);
        }
        if input.branches.is_open() {
            eprintln!("{name}: reached the end without finding closing \\endif(s)");
            return Ok(Flow::Failed);
        }
        match input.splitter.finish() {
            Some(rest) => self.run(&rest.text, Origin { file: Some(name), line: rest.line }),
            None => Ok(Flow::Next),
        }
    }

    /// Whether statements behind one that ended so are run.
    fn goes_on_after(&self, flow: Flow) -> bool {
        flow == Flow::Failed && !self.variables.is_on(ON_ERROR_STOP)
    }

    /// What the text so far waits for.
    pub(crate) fn waiting(&self, input: &Input) -> Waiting {
        if self.takes_rows() { Waiting::Rows } else { input.waiting() }
    }

    /// Drops what was typed and has not been run.
    pub(crate) fn interrupt(&mut self, input: &mut Input) {
        if self.takes_rows() {
            self.give_up_copying();
        } else {
            input.interrupt();
        }
    }

    /// Takes in a line and runs what is complete, up to the first failure; what comes behind a failure on the same
    /// line is dropped, unless failures are to end nothing.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub(crate) fn take_line(
        &mut self,
        input: &mut Input,
        line: &str,
        file: Option<&str>,
    ) -> Result<Flow, Failure> {
        if self.takes_rows() {
            let flow = self.take_copied(format!("{line}\n").as_bytes())?;
            input.splitter.pass_line();
            if flow != Flow::Next && !self.goes_on_after(flow) {
                return Ok(flow);
            }
        } else if command::is_pointed(line) && input.splitter.waiting() == Waiting::Statement {
            input.splitter.pass_line();
            return self.take_command(line.trim_start(), input, file);
        } else {
            input.splitter.push_line(line);
        }
        self.work_off(input, file)
    }

    /// Runs what is complete of the text.
    fn work_off(&mut self, input: &mut Input, file: Option<&str>) -> Result<Flow, Failure> {
        while !self.takes_rows()
            && let Some(token) = input.splitter.next_token()
        {
            let flow = match token {
                Token::Statement(piece) if input.branches.is_run() => {
                    self.run(&piece.text, Origin { file, line: piece.line })?
                }
                Token::Statement(_) => Flow::Next,
                Token::Command(line) => self.take_command(&line, input, file)?,
            };
            if flow != Flow::Next && !self.goes_on_after(flow) {
                input.splitter.clear();
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
