// SPDX-License-Identifier: Apache-2.0
//! What is longer than the screen, through a pager.

use std::io::{self, Write};
use std::process::{Command, Stdio};

/// Whether long results go through a pager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pager {
    On,
    Off,
}

/// Prints a text, by the program in `PAGER` (`less` if there is none) if it has more lines than the screen. If that cannot be
/// started the text is printed as it is.
///
/// # Errors
/// If the output cannot be written.
pub(super) fn paged(text: &[u8], out: &mut dyn Write) -> io::Result<()> {
    let lines = text.iter().filter(|&&byte| byte == b'\n').count();
    let screen = console::Term::stdout().size_checked().map(|(rows, _)| usize::from(rows));
    if screen.is_none_or(|rows| lines < rows) {
        return out.write_all(text);
    }
    out.flush()?;
    let pager = std::env::var("PAGER").ok().filter(|pager| !pager.trim().is_empty());
    let pager = pager.unwrap_or_else(|| "less".to_owned());
    // Wide tables are not folded, colours are shown, and what fits after all is left on the screen.
    let started = Command::new("sh")
        .args(["-c", &pager])
        .env("LESS", std::env::var("LESS").unwrap_or_else(|_| "FRSX".to_owned()))
        .stdin(Stdio::piped())
        .spawn();
    let Ok(mut running) = started else { return out.write_all(text) };
    // Who leaves the pager early has seen enough.
    let _ = running.stdin.take().map(|mut input| input.write_all(text));
    if running.wait()?.code() == Some(127) {
        return out.write_all(text);
    }
    Ok(())
}
