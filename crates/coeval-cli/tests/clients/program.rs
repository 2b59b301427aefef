// SPDX-License-Identifier: Apache-2.0
//! A client's program: how it is run, and what came of it.

use crate::server::Server;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a program may hang before it is ended. None of them needs a tenth of it.
const HANGS_AFTER: Duration = Duration::from_secs(300);

/// How a program ends well.
pub(crate) enum Expected {
    /// It says so by its exit code.
    Success,
    /// It prints this.
    Output(String),
}

/// A program, ready to be run.
pub(crate) struct Program {
    pub(crate) command: Command,
    pub(crate) expected: Expected,
}

/// What came of a program.
pub(crate) struct Ended {
    pub(crate) is_success: bool,
    /// What it printed, then what it printed as errors.
    pub(crate) output: String,
}

/// Runs it in an empty folder, with the server's address where PostgreSQL's own clients look for it; of several servers, hosts and
/// ports stand there as libpq lists them.
pub(crate) fn run(mut command: Command, server: &Server) -> Ended {
    let folder = tempfile::tempdir().unwrap();
    let environment = [
        ("PGHOST", server.host.as_str()),
        ("PGPORT", &server.port),
        ("PGUSER", "coeval"),
        ("PGDATABASE", &server.database),
        ("PGTZ", "UTC"),
        ("PGCLIENTENCODING", "UTF8"),
        ("TZ", "UTC"),
        ("LC_ALL", "C.UTF-8"),
    ];
    if command.get_current_dir().is_none() {
        command.current_dir(folder.path());
    }
    let child = command
        .envs(environment)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    ended(child)
}

fn ended(mut child: Child) -> Ended {
    let gather = |mut from: Box<dyn Read + Send>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            from.read_to_end(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let printed = gather(Box::new(child.stdout.take().unwrap()));
    let errors = gather(Box::new(child.stderr.take().unwrap()));
    let started = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if started.elapsed() > HANGS_AFTER => {
                child.kill().unwrap();
                child.wait().unwrap();
                break None;
            }
            None => thread::sleep(Duration::from_millis(20)),
        }
    };
    let mut output = printed.join().unwrap();
    output.push_str(&errors.join().unwrap());
    if status.is_none() {
        output.push_str("\nit hangs");
    }
    Ended { is_success: status.is_some_and(|status| status.success()), output }
}

/// The first lines that differ, with what stands around them.
pub(crate) fn difference(wanted: &str, found: &str) -> String {
    const AROUND: usize = 12;
    let (wanted, found): (Vec<_>, Vec<_>) = (wanted.lines().collect(), found.lines().collect());
    let same = wanted.iter().zip(&found).take_while(|(wanted, found)| wanted == found).count();
    let part = |lines: &[&str]| {
        let end = (same + AROUND).min(lines.len());
        lines[same.saturating_sub(AROUND).min(end)..end].join("\n")
    };
    format!("line {} differs\n-- wanted\n{}\n-- found\n{}\n", same + 1, part(&wanted), part(&found))
}
