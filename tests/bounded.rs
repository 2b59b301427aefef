// SPDX-License-Identifier: Apache-2.0
//! Programs that a test starts, and waits for: for so long and no longer. A test that waits without a bound holds up all others, and
//! nobody sees for what.

#![allow(dead_code, reason = "each test program uses a part")]

use std::convert::Infallible;
use std::io::{ErrorKind, Read};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a program may take: several times what the longest one takes on a slow machine.
pub(crate) const END_PATIENCE: Duration = Duration::from_secs(600);

/// Between two looks whether it has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// As [`Command::output`], of a program that has to end. Its standard input is empty.
///
/// # Panics
/// If it does not: the program is killed, and the message has its command line and what it has said so far.
#[track_caller]
pub(crate) fn output(command: &mut Command) -> Output {
    output_within(command, END_PATIENCE)
}

/// The same, within so long.
#[track_caller]
pub(crate) fn output_within(command: &mut Command, patience: Duration) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    end_of(child, &format!("{command:?}"), patience)
}

/// As [`Child::wait_with_output`], of a program that was started so; `what` names it.
#[track_caller]
pub(crate) fn end_of(mut child: Child, what: &str, patience: Duration) -> Output {
    let (shown, said) = (Heard::of(child.stdout.take()), Heard::of(child.stderr.take()));
    let begun = Instant::now();
    let left = || patience.saturating_sub(begun.elapsed());
    let status = ended_within(&mut child, patience);
    // Whoever it has started may hold the other ends.
    let Some(status) = status.filter(|_| shown.has_all_within(left()) && said.has_all_within(left())) else {
        kill(&mut child);
        panic!("{what} does not end within {patience:?}; it has said\n{}\n{}", shown.text(), said.text());
    };
    Output { status, stdout: shown.bytes(), stderr: said.bytes() }
}

/// As [`Child::wait`]; `what` names the program.
///
/// # Panics
/// If it does not end: it is killed.
#[track_caller]
pub(crate) fn status(child: &mut Child, what: &str) -> ExitStatus {
    ended_within(child, END_PATIENCE).unwrap_or_else(|| {
        kill(child);
        panic!("{what} does not end within {END_PATIENCE:?}")
    })
}

fn ended_within(child: &mut Child, patience: Duration) -> Option<ExitStatus> {
    let begun = Instant::now();
    loop {
        let status = child.try_wait().expect("the system says whether a child runs");
        if status.is_some() || begun.elapsed() >= patience {
            return status;
        }
        thread::sleep(LOOK_INTERVAL);
    }
}

fn kill(child: &mut Child) {
    // It may have ended.
    let _ = child.kill();
    let _ = child.wait();
}

/// What has come through a pipe, which a thread reads to its end.
struct Heard {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Nothing comes: the other side goes with the thread.
    ended: Receiver<Infallible>,
}

impl Heard {
    fn of(pipe: Option<impl Read + Send + 'static>) -> Self {
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        let (ends, ended) = channel();
        if let Some(pipe) = pipe {
            let kept = Arc::clone(&bytes);
            thread::spawn(move || Self::read(pipe, &kept, ends));
        }
        Self { bytes, ended }
    }

    fn read(mut pipe: impl Read, into: &Mutex<Vec<u8>>, ends: Sender<Infallible>) {
        let mut part = [0; 8192];
        loop {
            match pipe.read(&mut part) {
                Ok(0) => break,
                Ok(count) => {
                    into.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&part[..count]);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        drop(ends);
    }

    fn has_all_within(&self, patience: Duration) -> bool {
        matches!(self.ended.recv_timeout(patience), Err(RecvTimeoutError::Disconnected))
    }

    fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }
}

/// Kills a process that has not done what it is to do while this is there, for so long: whoever reads what it says finds the end of that.
pub(crate) struct Alarm {
    _going: Sender<Infallible>,
}

impl Alarm {
    pub(crate) fn set(child: &Child, patience: Duration) -> Self {
        let process = child.id().to_string();
        let (going, gone) = channel();
        thread::spawn(move || Self::watch(&process, &gone, patience));
        Self { _going: going }
    }

    fn watch(process: &str, gone: &Receiver<Infallible>, patience: Duration) {
        if matches!(gone.recv_timeout(patience), Err(RecvTimeoutError::Timeout)) {
            eprintln!("process {process} has kept a test waiting for {patience:?}, and is killed");
            // It may have ended.
            let _ = Command::new("kill").args(["-KILL", process]).status();
        }
    }
}
