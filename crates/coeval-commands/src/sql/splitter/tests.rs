// SPDX-License-Identifier: Apache-2.0
//! Tests of the splitter.

use super::{Splitter, Waiting};

/// All statements of a text, and what is left of it.
fn split(text: &str) -> (Vec<String>, Option<String>) {
    let mut splitter = Splitter::new();
    let mut statements = Vec::new();
    for line in text.lines() {
        splitter.push_line(line);
        while let Some(statement) = splitter.next_statement() {
            statements.push(statement.text);
        }
    }
    (statements, splitter.finish().map(|rest| rest.text))
}

fn complete(text: &str) -> Vec<String> {
    let (statements, rest) = split(text);
    assert_eq!(rest, None, "nothing is left of {text:?}");
    statements
}

fn waiting(text: &str) -> Waiting {
    let mut splitter = Splitter::new();
    splitter.push_line(text);
    assert_eq!(splitter.next_statement(), None);
    splitter.waiting()
}

#[test]
fn statements_end_at_semicolons() {
    assert_eq!(complete("select 1; select 2;\n  select\n  3;"), ["select 1", "select 2", "select\n  3"]);
    assert_eq!(split("select 1; select 2"), (vec!["select 1".to_owned()], Some("select 2".to_owned())));
}

#[test]
fn semicolons_in_strings_and_names_end_nothing() {
    assert_eq!(complete("select 'a;b', \"c;d\";"), ["select 'a;b', \"c;d\""]);
    assert_eq!(complete("select 'it''s; fine';"), ["select 'it''s; fine'"]);
    assert_eq!(complete("select \"a\"\";\" from t;"), ["select \"a\"\";\" from t"]);
    assert_eq!(complete("select 'two\nlines;';"), ["select 'two\nlines;'"]);
}

#[test]
fn backslashes_escape_only_in_strings_that_say_so() {
    assert_eq!(complete("select 'a\\'; select 2;"), ["select 'a\\'", "select 2"]);
    assert_eq!(complete("select E'a\\';b';"), ["select E'a\\';b'"]);
    assert_eq!(complete("select E'it''s \\'; so';"), ["select E'it''s \\'; so'"]);
    assert_eq!(complete("select name'x\\'; select 1;"), ["select name'x\\'", "select 1"]);
}

#[test]
fn dollar_quotes_end_at_their_own_mark() {
    assert_eq!(complete("select $$a;b$$;"), ["select $$a;b$$"]);
    assert_eq!(complete("select $x$ $$;$y$; $x$;"), ["select $x$ $$;$y$; $x$"]);
    assert_eq!(complete("select $1; select a$b$c;"), ["select $1", "select a$b$c"]);
    assert_eq!(complete("select $1 + $2;"), ["select $1 + $2"]);
}

#[test]
fn comments_are_not_read() {
    assert_eq!(complete("select 1 -- one; 'two\n+ 2;"), ["select 1 -- one; 'two\n+ 2"]);
    assert_eq!(complete("select /* ; /* ' */ ; */ 1;"), ["select /* ; /* ' */ ; */ 1"]);
    assert_eq!(complete("-- nothing here;\n/* nor ; here */ ;;\nselect 1;"), ["select 1"]);
}

#[test]
fn letters_of_any_width_are_read_whole() {
    assert_eq!(complete("select 'größe;日本'; select 'é';"), ["select 'größe;日本'", "select 'é'"]);
    assert_eq!(complete("select E'\\日;';"), ["select E'\\日;'"]);
}

#[test]
fn the_prompt_knows_what_is_missing() {
    assert_eq!(waiting(""), Waiting::Statement);
    assert_eq!(waiting("-- only a comment"), Waiting::Statement);
    assert_eq!(waiting("select"), Waiting::Rest);
    assert_eq!(waiting("select 1 -- one"), Waiting::Rest);
    assert_eq!(waiting("select 'a"), Waiting::Text);
    assert_eq!(waiting("select \"a"), Waiting::Name);
    assert_eq!(waiting("select $a$ b"), Waiting::Dollar);
    assert_eq!(waiting("/* begun"), Waiting::Comment);
}

#[test]
fn a_cleared_splitter_begins_anew() {
    let mut splitter = Splitter::new();
    splitter.push_line("select 'not closed");
    assert_eq!(splitter.next_statement(), None);
    splitter.clear();
    splitter.push_line("select 1;");
    assert_eq!(splitter.next_statement().map(|piece| piece.text).as_deref(), Some("select 1"));
    assert_eq!(splitter.waiting(), Waiting::Statement);
}

#[test]
fn statements_know_the_line_they_begin_on() {
    let mut splitter = Splitter::new();
    for line in ["-- a comment", "", "select 1; select", "2;", "", "select 3"] {
        splitter.push_line(line);
    }
    let lines: Vec<usize> =
        std::iter::from_fn(|| splitter.next_statement()).map(|piece| piece.line).collect();
    assert_eq!(lines, [1, 3]);
    assert_eq!(splitter.finish().map(|piece| piece.line), Some(6));
}
