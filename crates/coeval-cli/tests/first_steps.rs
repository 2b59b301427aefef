// SPDX-License-Identifier: Apache-2.0
//! What somebody does first: a database with data to play with, a look at the machine, completions and the manual.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::process::{Command, Output};

fn coeval(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_coeval")).args(arguments).output().unwrap()
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
