// SPDX-License-Identifier: Apache-2.0
//! What happens, on stderr: one event a line, whatever clients call themselves.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Stderr, Write, stderr};
use tracing_subscriber::EnvFilter;

/// How events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    /// An object a line, in which nothing can be forged.
    Json,
}

/// Whether lines are coloured, for which they hold control sequences of our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Colours {
    No,
    Yes,
}

/// Events go to stderr from now on.
pub(crate) fn begin(format: Format) {
    let filter = EnvFilter::try_from_env("COEVAL_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter);
    match format {
        Format::Json => builder.json().with_writer(stderr).init(),
        Format::Text => {
            let colours = if stderr().is_terminal() { Colours::Yes } else { Colours::No };
            let writer = move || OneLine { out: stderr(), colours };
            builder.with_ansi(colours == Colours::Yes).with_target(false).with_writer(writer).init();
        }
    }
}

/// Writes each event, which comes in one piece, as one line: a control character in it, such as the end of a line in a
/// user's name, is spelled out.
struct OneLine<W = Stderr> {
    out: W,
    colours: Colours,
}

impl<W: Write> Write for OneLine<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let line = one_line(&String::from_utf8_lossy(event), self.colours);
        self.out.write_all(line.as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn one_line(event: &str, colours: Colours) -> String {
    let mut rest = event.strip_suffix('\n').unwrap_or(event);
    let mut line = String::with_capacity(event.len());
    while let Some(place) = rest.find(char::is_control) {
        let (plain, behind) = rest.split_at(place);
        line.push_str(plain);
        let colour = if colours == Colours::Yes { colour_bytes(behind) } else { 0 };
        let taken = if colour > 0 {
            line.push_str(&behind[..colour]);
            colour
        } else {
            let control = behind.chars().next().expect("it was found there");
            // Writing to a String cannot fail.
            let _ = write!(line, "{}", control.escape_default());
            control.len_utf8()
        };
        rest = &behind[taken..];
    }
    line.push_str(rest);
    line.push('\n');
    line
}

/// The length of the sequence at the beginning that changes the colour, `ESC [ 31 m`; 0 if there is none.
fn colour_bytes(text: &str) -> usize {
    let Some(parameters) = text.strip_prefix("\u{1b}[") else { return 0 };
    let end = parameters.find(|c: char| !c.is_ascii_digit() && c != ';');
    end.filter(|end| parameters[*end..].starts_with('m'))
        .map_or(0, |end| text.len() - parameters.len() + end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_name_with_the_end_of_a_line_in_it_makes_no_line_of_its_own() {
        let kept = Kept::default();
        let out = kept.clone();
        let writer = move || OneLine { out: out.clone(), colours: Colours::No };
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(writer).finish();
        tracing::subscriber::with_default(subscriber, || {
            let name = "x\"\n2026-11-23T12:00:00Z  INFO the administrator has logged in\r\u{1b}[2Jä";
            tracing::info!(message = %format_args!("no such user \"{name}\""), "connection refused");
        });
        let written = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        assert_eq!(written.matches('\n').count(), 1, "{written}");
        assert!(
            written.ends_with('\n') && written.contains("x\"\\n2026") && written.contains('ä'),
            "{written}"
        );
        assert!(!written.contains(['\r', '\u{1b}']), "{written}");
    }

    #[test]
    fn colours_stay_and_other_sequences_do_not() {
        assert_eq!(one_line("\u{1b}[2;31mred\u{1b}[0m\n", Colours::Yes), "\u{1b}[2;31mred\u{1b}[0m\n");
        assert_eq!(one_line("\u{1b}[2Jx\u{1b}[", Colours::Yes), "\\u{1b}[2Jx\\u{1b}[\n");
        assert_eq!(one_line("\u{1b}[31mred", Colours::No), "\\u{1b}[31mred\n");
    }
}
