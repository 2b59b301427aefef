// SPDX-License-Identifier: Apache-2.0
//! What somebody does first: a database with data to play with, a look at the machine, completions and the manual.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../../../tests/bounded.rs"]
mod bounded;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Output};
use std::time::Duration;

fn coeval(arguments: &[&str]) -> Output {
    bounded::output(Command::new(env!("CARGO_BIN_EXE_coeval")).args(arguments))
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn examples_are_made_once_and_answer_the_question_that_is_suggested() {
    for (example, tables) in [("shop", "orders"), ("metrics", "machines")] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("db").display().to_string();
        let said = printed(&coeval(&["init", "--example", example, &dir]));
        assert!(said.contains(tables), "{said}");
        let question = said.split_once("Try\n").unwrap().1;
        let answer = printed(&coeval(&["sql", &dir, "-c", question]));
        let rows = answer.lines().last().unwrap();
        assert!(rows.starts_with('(') && rows != "(0 rows)", "{answer}");
        let again = coeval(&["init", &dir]);
        assert_eq!(again.status.code(), Some(1));
        assert!(String::from_utf8(again.stderr).unwrap().contains("holds a database already"));
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("letter.txt"), "dear").unwrap();
    let refused = coeval(&["init", &dir.path().display().to_string()]);
    assert!(String::from_utf8(refused.stderr).unwrap().contains("is not empty"));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

/// `coeval promote` made the directory.
#[test]
fn commands_that_need_a_database_name_a_directory_that_is_not_there_and_make_none() {
    let parent = tempfile::tempdir().unwrap();
    let path = |name: &str| parent.path().join(name).display().to_string();
    let (missing, archive) = (path("nothere"), path("archive"));
    let (missing, archive) = (missing.as_str(), archive.as_str());
    for arguments in [
        &["promote", missing][..],
        &["promote", missing, "--accept-loss"],
        &["check", missing],
        &["check", "--repair", missing],
        &["check", "--archive", missing],
        &["backup", missing, archive],
        &["restore", missing, archive],
        &["sql", "--salvage", missing, "-c", "SELECT 1"],
        &["serve", "--salvage", missing, "--listen", "127.0.0.1:0"],
    ] {
        let refused = coeval(arguments);
        assert_eq!(refused.status.code(), Some(1), "{arguments:?}");
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(said.contains(missing), "{arguments:?}: {said}");
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0, "{arguments:?}");
    }
}

#[test]
fn the_doctor_looks_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let said = printed(&coeval(&["doctor", &dir.path().join("new").display().to_string()]));
    for about in ["processors", "memory", "open files", "file system", "free room", "synced writes", "clock"]
    {
        assert!(said.contains(about), "{about}: {said}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn completions_and_the_manual_know_the_commands() {
    for shell in ["bash", "fish", "zsh"] {
        let script = printed(&coeval(&["completions", shell]));
        assert!(script.contains("replica-of"), "{shell}");
    }
    let dir = tempfile::tempdir().unwrap();
    printed(&coeval(&["manual", &dir.path().display().to_string()]));
    for page in ["coeval.1", "coeval-serve.1", "coeval-sql.1"] {
        let text = std::fs::read_to_string(dir.path().join(page)).unwrap();
        assert!(text.contains(".TH"), "{page}");
    }
}

/// Fails, without an end, if whoever waits for a program has no bound: a feed that did not end held up a whole run of the tests, and
/// nobody saw which one it was.
#[test]
fn a_program_that_does_not_end_is_killed_and_named() {
    let mut command = Command::new("sh");
    command.args(["-c", "echo so far; echo and so on >&2; exec sleep 3600"]);
    let patience = Duration::from_secs(1);
    let waiting = AssertUnwindSafe(|| bounded::output_within(&mut command, patience));
    let panic = catch_unwind(waiting).unwrap_err();
    let said = panic.downcast_ref::<String>().unwrap();
    for part in ["sleep 3600", "does not end within 1s", "so far", "and so on"] {
        assert!(said.contains(part), "{part:?} is missing in {said}");
    }
    // One that has ended is heard to its end, also if somebody else has its output still.
    command = Command::new("sh");
    command.args(["-c", "sleep 3600 & echo $!"]);
    let waiting = AssertUnwindSafe(|| bounded::output_within(&mut command, patience));
    let panic = catch_unwind(waiting).unwrap_err();
    let said = panic.downcast_ref::<String>().unwrap();
    let left: u32 = said.lines().find_map(|line| line.parse().ok()).unwrap();
    assert!(Command::new("kill").arg(left.to_string()).status().unwrap().success());

    let ended = bounded::output(Command::new("sh").args(["-c", "echo all; exit 3"]));
    assert_eq!((ended.status.code(), ended.stdout.as_slice()), (Some(3), b"all\n".as_slice()));
    let mut child = Command::new("sleep").arg("3600").spawn().unwrap();
    let alarm = bounded::Alarm::set(&child, Duration::from_millis(50));
    let status = bounded::status(&mut child, "what is killed by its alarm");
    drop(alarm);
    assert!(!status.success());
}
