// SPDX-License-Identifier: Apache-2.0
//! Output that goes into a file, or to a program.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::process::{Child, Command, ExitStatus, Stdio};

/// What is written goes elsewhere, until this is closed or dropped.
pub(super) struct Redirect {
    /// `None` once it is closed.
    sink: Option<BufWriter<Box<dyn Write>>>,
    program: Option<Child>,
}

impl Redirect {
    /// Into a new file of this name, or to the program behind `|`.
    ///
    /// # Errors
    /// If the file cannot be made, or the program cannot be started.
    pub(super) fn open(target: &str) -> io::Result<Self> {
        match target.strip_prefix('|') {
            Some(program) => Self::to_program(program),
            None => Self::to_file(target),
        }
    }

    /// Into a new file.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(super) fn to_file(name: &str) -> io::Result<Self> {
        let file: Box<dyn Write> = Box::new(File::create(name)?);
        Ok(Self { sink: Some(BufWriter::new(file)), program: None })
    }

    /// To a program.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) fn to_program(program: &str) -> io::Result<Self> {
        let mut child = Command::new("sh").args(["-c", program]).stdin(Stdio::piped()).spawn()?;
        let input = child.stdin.take().ok_or_else(|| io::Error::other("the program takes no input"))?;
        let input: Box<dyn Write> = Box::new(input);
        Ok(Self { sink: Some(BufWriter::new(input)), program: Some(child) })
    }

    /// Everything is written, and the program has ended; how it has.
    ///
    /// # Errors
    /// If the rest cannot be written.
    pub(super) fn close(&mut self) -> io::Result<Option<ExitStatus>> {
        let flushed = self.flush();
        // The program ends when it has no more to read.
        drop(self.sink.take());
        let ended = self.program.take().map(|mut program| program.wait()).transpose();
        flushed?;
        ended
    }

    /// Does this with the sink, if there is one. A program may read as little as it likes.
    fn with_sink<T>(
        &mut self,
        read_no_more: T,
        work: impl FnOnce(&mut BufWriter<Box<dyn Write>>) -> io::Result<T>,
    ) -> io::Result<T> {
        let Some(sink) = &mut self.sink else { return Ok(read_no_more) };
        match work(sink) {
            Err(error) if self.program.is_some() && error.kind() == ErrorKind::BrokenPipe => Ok(read_no_more),
            outcome => outcome,
        }
    }
}

impl Write for Redirect {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.with_sink(bytes.len(), |sink| sink.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.with_sink((), Write::flush)
    }
}

impl Drop for Redirect {
    fn drop(&mut self) {
        if self.sink.is_some()
            && let Err(error) = self.close()
        {
            eprintln!("coeval: cannot write the output: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_or_a_program_gets_what_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("out").display().to_string();
        let mut redirect = Redirect::open(&file).unwrap();
        redirect.write_all(b"one\n").unwrap();
        assert_eq!(redirect.close().unwrap(), None);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\n");
        let mut redirect = Redirect::open(&format!("|tr o 0 > {file}")).unwrap();
        redirect.write_all(b"one\n").unwrap();
        assert!(redirect.close().unwrap().is_some_and(|status| status.success()));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "0ne\n");
    }

    #[test]
    fn a_program_may_leave_the_rest_unread() {
        let mut redirect = Redirect::open("|true").unwrap();
        for _ in 0..1_000 {
            redirect.write_all(&[b'x'; 4_096]).unwrap();
        }
        redirect.close().unwrap();
    }
}
