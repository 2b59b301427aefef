// SPDX-License-Identifier: Apache-2.0
//! `coeval sql` at a terminal, which `script` gives the program: Ctrl-C, and words that newcomers type.
#![allow(clippy::unwrap_used)]

#[path = "../../../tests/skipping.rs"]
mod skipping;

use skipping::needed;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Longest wait for something that has to come.
const PATIENCE: Duration = Duration::from_secs(120);
const CTRL_C: &str = "\u{3}";

/// The shell in a terminal.
struct Terminal {
    script: Child,
    keys: ChildStdin,
    shown: Receiver<Vec<u8>>,
    /// What has been shown and not been looked for.
    screen: String,
}

impl Terminal {
    /// `None`: there is no `script`.
    fn open(home: &std::path::Path) -> Option<Self> {
        // What the program ended with is shown, for `script` has reasons of its own to fail. Ctrl-C
        // goes to `sh` as well, as it does to all that run in the foreground: some (dash) would
        // end of it once the program has ended, whatever that made of it.
        let program = env!("CARGO_BIN_EXE_coeval");
        let shell = format!("trap : INT; '{program}' sql --in-memory; echo left with $?.");
        let mut script = Command::new("script")
            .args(["--quiet", "--command", &shell, "/dev/null"])
            .env("HOME", home)
            .env("SHELL", "/bin/sh")
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let (sender, shown) = channel();
        let mut output = script.stdout.take().unwrap();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        let keys = script.stdin.take().unwrap();
        Some(Self { script, keys, shown, screen: String::new() })
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Waits until this is shown.
    fn until(&mut self, wanted: &str) {
        assert!(self.shows_within(wanted, PATIENCE), "{wanted:?} is not shown, but {:?}", self.screen);
    }

    /// Whether this is shown within so long.
    fn shows_within(&mut self, wanted: &str, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(at) = self.screen.find(wanted) {
                self.screen.drain(..at + wanted.len());
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(bytes) = self.shown.recv_timeout(left) else { return false };
            self.screen += &String::from_utf8_lossy(&bytes);
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

#[test]
fn ctrl_c_cancels_the_statement_and_the_shell_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let Some(mut terminal) = needed("script", Terminal::open(home.path())) else { return };
    terminal.until("coeval=> ");
    // The second statement runs once the first has shown its row.
    terminal.press("SELECT 41 + 1 AS first; SELECT pg_sleep(3600);\n");
    terminal.until("    42\r\n");
    // On a busy machine it may not have begun when the first one comes.
    let is_cancelled = (0..60).any(|_| {
        terminal.press(CTRL_C);
        terminal.shows_within("57014", Duration::from_secs(2))
    });
    assert!(is_cancelled, "{:?}", terminal.screen);
    terminal.until("canceling statement due to user request");
    terminal.press("SELECT 6 * 7000 AS next;\n");
    terminal.until("42000\r\n");
    terminal.until("coeval=> ");
    // What has been typed is dropped, and nothing ends.
    terminal.press("SELECT 'half ");
    // Each key shows the line anew, with its prompt: the last one ends it with a blank.
    terminal.until("half ");
    terminal.press(CTRL_C);
    terminal.until("coeval=> ");
    terminal.press("SELECT 8 * 9000 AS last;\n");
    terminal.until("72000\r\n");
    terminal.press("\\q\n");
    terminal.until("left with 0.");
}

#[test]
fn bare_words_ask_for_help_and_leave() {
    let home = tempfile::tempdir().unwrap();
    let Some(mut terminal) = needed("script", Terminal::open(home.path())) else { return };
    terminal.until("coeval=> ");
    terminal.press("help\n");
    terminal.until("Ctrl-D leaves");
    terminal.until("coeval=> ");
    // In a statement that has begun it is a word like any other.
    terminal.press("SELECT 6 * 7000 AS\n");
    terminal.until("coeval-> ");
    terminal.press("quit\n");
    terminal.until("Ctrl-C drops that");
    terminal.until("coeval-> ");
    terminal.press(";\n");
    terminal.until("42000\r\n");
    terminal.until("coeval=> ");
    terminal.press("Exit;\n");
    terminal.until("left with 0.");
}
