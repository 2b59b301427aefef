// SPDX-License-Identifier: Apache-2.0
//! COPY whose bytes the shell reads or writes: `COPY ... FROM STDIN`, `... TO STDOUT`, and `\copy`.

use super::{Audience, Flow, Shell};
use crate::failure::Failure;
use crate::place::Place;
use crate::sql::command::{CopyCommand, CopyDirection, CopyEnd};
use crate::sql::problem::Origin;
use crate::sql::redirect::Redirect;
use coeval::{CommandTag, CopyInput, CopyOutcome, CopyOutput, Error};
use std::fs::File;
use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// How much of a file is read at a time.
const PIECE_BYTES: usize = 256 << 10;

/// The line behind the last row.
const END: &[u8] = b"\\.";

/// A COPY whose rows are the next lines of the text that it stands in.
pub(super) enum Copying {
    Feeding(Box<CopyInput>),
    /// One of its rows was refused; what is left of them is passed over.
    Refused,
}

/// Where a COPY FROM reads.
enum Source {
    File(File),
    Program(Child),
    /// The lines behind the command.
    Inline,
    /// The shell's standard input.
    Process,
}

impl Source {
    fn open(end: &CopyEnd) -> io::Result<Self> {
        Ok(match end {
            CopyEnd::File(name) => Self::File(File::open(name)?),
            CopyEnd::Program(program) => {
                let mut command = Command::new("sh");
                Self::Program(command.args(["-c", program]).stdout(Stdio::piped()).spawn()?)
            }
            CopyEnd::Inline => Self::Inline,
            CopyEnd::Process => Self::Process,
        })
    }
}

impl Shell<'_> {
    /// Runs a statement that is a COPY.
    pub(super) fn run_copy(&mut self, sql: &str, origin: Origin<'_>) -> Result<Flow, Failure> {
        let started = Instant::now();
        let outcome = {
            let _patience = self.patience();
            self.session.start_copy(sql)
        };
        self.last = Some(sql.to_owned());
        match outcome {
            Ok(CopyOutcome::Done(tag)) => self.say_copied(tag, started),
            Ok(CopyOutcome::In(copy)) => Ok(self.copy_lines_behind(copy, origin.file)),
            Ok(CopyOutcome::Out(copy)) => self.copy_to_results(copy),
            Err(error) => self.say_refused(&error, sql, origin),
        }
    }

    /// Runs `\copy`.
    pub(super) fn copy(&mut self, wanted: &CopyCommand, file: Option<&str>) -> Result<Flow, Failure> {
        match wanted.direction {
            CopyDirection::From => self.copy_from(wanted, file),
            CopyDirection::To => self.copy_to(wanted),
        }
    }

    fn copy_from(&mut self, wanted: &CopyCommand, file: Option<&str>) -> Result<Flow, Failure> {
        let started = Instant::now();
        self.out.flush()?;
        let source = match Source::open(&wanted.end) {
            Ok(source) => source,
            Err(error) => return Ok(cannot_copy(&wanted.end, &error)),
        };
        let sql = wanted.statement();
        let patience = self.patience();
        let copy = match self.session.start_copy(&sql) {
            Ok(CopyOutcome::In(copy)) => copy,
            Ok(CopyOutcome::Done(tag)) => {
                drop(patience);
                return self.say_copied(tag, started);
            }
            Ok(CopyOutcome::Out(_)) => return Err(Failure::Work("COPY FROM gave rows".to_owned())),
            Err(error) => {
                drop(patience);
                return self.say_refused(&error, &sql, Origin { file: None, line: 1 });
            }
        };
        let copied = match source {
            Source::Inline => return Ok(self.copy_lines_behind(copy, file)),
            Source::Process => {
                drop(patience);
                self.copying = Some(Copying::Feeding(Box::new(copy)));
                return self.take_copied_lines(&mut io::stdin().lock());
            }
            Source::File(mut file) => self.copy_all(copy, &mut file, &wanted.end),
            Source::Program(mut program) => {
                let copied = match program.stdout.take() {
                    Some(mut output) => self.copy_all(copy, &mut output, &wanted.end),
                    None => Ok(None),
                };
                let ended = program.wait()?;
                if !ended.success() {
                    self.say(&format!("{}: {ended}", shown(&wanted.end)));
                }
                // What it has given is in the table all the same.
                copied.map(|rows| rows.filter(|_| ended.success()))
            }
        };
        drop(patience);
        match copied {
            Ok(Some(rows)) => self.say_copied(CommandTag::Copy(rows), started),
            Ok(None) => Ok(Flow::Failed),
            Err(error) => self.say_refused(&error, "", Origin { file: None, line: 1 }),
        }
    }

    /// Gives a COPY all that there is to read; how many rows it has added, `None` if not all could be read, which has been said.
    fn copy_all(
        &mut self,
        mut copy: CopyInput,
        source: &mut dyn Read,
        end: &CopyEnd,
    ) -> Result<Option<u64>, Error> {
        let mut buffer = vec![0; PIECE_BYTES];
        loop {
            match source.read(&mut buffer) {
                Ok(0) => return self.session.finish_copy(copy).map(Some),
                Ok(length) => self.session.feed_copy(&mut copy, &buffer[..length])?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.session.abandon_copy(copy);
                    cannot_copy(end, &error);
                    return Ok(None);
                }
            }
        }
    }

    fn copy_to(&mut self, wanted: &CopyCommand) -> Result<Flow, Failure> {
        let started = Instant::now();
        self.out.flush()?;
        let opened = match &wanted.end {
            CopyEnd::File(file) => Redirect::to_file(file).map(Some),
            CopyEnd::Program(program) => Redirect::to_program(program).map(Some),
            CopyEnd::Inline | CopyEnd::Process => Ok(None),
        };
        let mut into = match opened {
            Ok(into) => into,
            Err(error) => return Ok(cannot_copy(&wanted.end, &error)),
        };
        let sql = wanted.statement();
        let mut copy = match self.session.start_copy(&sql) {
            Ok(CopyOutcome::Out(copy)) => copy,
            Ok(CopyOutcome::Done(_) | CopyOutcome::In(_)) => {
                return Err(Failure::Work("COPY TO gave no rows".to_owned()));
            }
            Err(error) => return self.say_refused(&error, &sql, Origin { file: None, line: 1 }),
        };
        let Some(into) = &mut into else {
            if wanted.end == CopyEnd::Inline {
                return self.copy_to_results(copy);
            }
            let failed = pour(&mut copy, &mut self.out)?;
            return self.say_poured(failed);
        };
        let poured = {
            let _patience = self.patience();
            pour(&mut copy, into)
        };
        let ended = match poured.and_then(|failed| Ok((failed, into.close()?))) {
            Ok((None, ended)) => ended,
            Ok((Some(error), _)) => return self.say_poured(Some(error)),
            Err(error) => return Ok(cannot_copy(&wanted.end, &error)),
        };
        if let Some(status) = ended.filter(|status| !status.success()) {
            self.say(&format!("{}: {status}", shown(&wanted.end)));
            return Ok(Flow::Failed);
        }
        self.say_copied(CommandTag::Copy(copy.rows()), started)
    }

    /// Prints the rows of a COPY TO STDOUT where results are printed.
    fn copy_to_results(&mut self, mut copy: CopyOutput) -> Result<Flow, Failure> {
        let failed = pour(&mut copy, self.results_out())?;
        self.say_poured(failed)
    }

    /// The rows of a COPY TO STDOUT have been printed, up to a failure if there was one.
    fn say_poured(&mut self, failed: Option<Error>) -> Result<Flow, Failure> {
        match failed {
            Some(error) => self.say_refused(&error, "", Origin { file: None, line: 1 }),
            None => {
                self.results_out().flush()?;
                Ok(Flow::Next)
            }
        }
    }

    /// The next lines are the rows of this COPY.
    fn copy_lines_behind(&mut self, copy: CopyInput, file: Option<&str>) -> Flow {
        self.copying = Some(Copying::Feeding(Box::new(copy)));
        if file.is_none() && matches!(self.audience, Audience::Person(_)) {
            println!("Enter data to be copied followed by a newline.");
            println!("End with a backslash and a period on a line by itself, or Ctrl-C to give up.");
        }
        Flow::Next
    }

    /// Whether the next line is a row of a COPY.
    pub(crate) fn takes_rows(&self) -> bool {
        self.copying.is_some()
    }

    /// Takes a line of a COPY with its end.
    pub(super) fn take_copied(&mut self, line: &[u8]) -> Result<Flow, Failure> {
        if line.trim_ascii_end() == END {
            return self.end_copied();
        }
        if let Some(Copying::Feeding(copy)) = &mut self.copying
            && let Err(error) = self.session.feed_copy(copy, line)
        {
            self.copying = Some(Copying::Refused);
            self.say_refused(&error, "", Origin { file: None, line: 1 })?;
        }
        Ok(Flow::Next)
    }

    /// No line behind is a row.
    pub(super) fn end_copied(&mut self) -> Result<Flow, Failure> {
        match self.copying.take() {
            None => Ok(Flow::Next),
            Some(Copying::Refused) => Ok(Flow::Failed),
            Some(Copying::Feeding(copy)) => match self.session.finish_copy(*copy) {
                Ok(rows) => self.say_copied(CommandTag::Copy(rows), Instant::now()),
                Err(error) => self.say_refused(&error, "", Origin { file: None, line: 1 }),
            },
        }
    }

    /// Takes lines up to the end of the COPY that has begun, or of the text.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub(crate) fn take_copied_lines(&mut self, text: &mut dyn BufRead) -> Result<Flow, Failure> {
        let mut line = Vec::new();
        while self.copying.is_some() {
            line.clear();
            match text.read_until(b'\n', &mut line) {
                Ok(0) => return self.end_copied(),
                Ok(_) => {
                    let flow = self.take_copied(&line)?;
                    if self.copying.is_none() {
                        return Ok(flow);
                    }
                }
                Err(error) => {
                    self.give_up_copying();
                    self.say(&format!("cannot read the rows of the COPY: {error}"));
                    return Ok(Flow::Failed);
                }
            }
        }
        Ok(Flow::Next)
    }

    /// The rest of the rows does not come.
    pub(crate) fn give_up_copying(&mut self) {
        if let Some(Copying::Feeding(copy)) = self.copying.take() {
            self.session.abandon_copy(*copy);
        }
    }

    fn say_copied(&mut self, tag: CommandTag, started: Instant) -> Result<Flow, Failure> {
        let took = started.elapsed();
        writeln!(self.results_out(), "{tag}")?;
        self.note_rows(tag.rows());
        self.say_time(took)?;
        Ok(Flow::Next)
    }

    fn say_refused(&mut self, error: &Error, sql: &str, origin: Origin<'_>) -> Result<Flow, Failure> {
        self.note_failure(error);
        self.out.flush()?;
        self.complain(error, sql, origin);
        Ok(Flow::Failed)
    }
}

/// Writes all that a COPY gives; the error that it ends with, if it does.
fn pour(copy: &mut CopyOutput, out: &mut dyn Write) -> io::Result<Option<Error>> {
    for piece in copy {
        match piece {
            Ok(bytes) => out.write_all(&bytes)?,
            Err(error) => return Ok(Some(error)),
        }
    }
    Ok(None)
}

fn shown(end: &CopyEnd) -> &str {
    match end {
        CopyEnd::File(name) | CopyEnd::Program(name) => name,
        CopyEnd::Inline | CopyEnd::Process => "\\copy",
    }
}

fn cannot_copy(end: &CopyEnd, error: &io::Error) -> Flow {
    eprintln!("{}: {error}", shown(end));
    Flow::Failed
}

/// Whether a text is one COPY statement.
pub(super) fn is_copy(sql: &str) -> bool {
    let (mut place, mut at) = (Place::Plain, 0);
    let mut begins = None;
    while at < sql.len() {
        let rest = &sql[at..];
        let (length, next) = place.next(rest, sql[..at].chars().next_back());
        let is_comment = matches!(next, Place::LineComment | Place::BlockComment(_));
        let is_code = place == Place::Plain && !is_comment && !rest.starts_with(char::is_whitespace);
        if is_code && begins.is_none() {
            begins = Some(at);
        }
        if is_code && rest.starts_with(';') && !rest[1..].trim().is_empty() {
            return false;
        }
        at += length;
        place = next;
    }
    let word = begins.and_then(|begins| sql[begins..].split(|next: char| !next.is_ascii_alphabetic()).next());
    word.is_some_and(|word| word.eq_ignore_ascii_case("copy"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_copy_is_told_from_other_texts() {
        assert!(is_copy("copy t from stdin") && is_copy("-- a\n/* b */ COPY (SELECT ';') TO STDOUT; "));
        assert!(!is_copy("copy t from 'x'; select 1") && !is_copy("copying") && !is_copy("select 'copy'"));
        assert!(!is_copy("") && !is_copy("'copy' copy"));
    }
}
