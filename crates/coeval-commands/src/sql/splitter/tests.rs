// SPDX-License-Identifier: Apache-2.0
//! Tests of the splitter.

use super::{Piece, Splitter, Token, Waiting};

/// The next statement of a text without commands.
fn next_statement(splitter: &mut Splitter) -> Option<Piece> {
    match splitter.next_token()? {
        Token::Statement(piece) => Some(piece),
        Token::Command(command) => panic!("{command} was not expected"),
    }
}

/// All that is complete in a text: statements as they are, commands in brackets.
fn tokens(text: &str) -> Vec<String> {
    let mut splitter = Splitter::new();
    text.lines().for_each(|line| splitter.push_line(line));
    let shown = |token| match token {
        Token::Statement(piece) => piece.text,
        Token::Command(command) => format!("[{command}]"),
    };
    std::iter::from_fn(|| splitter.next_token()).map(shown).collect()
}

/// All statements of a text, and what is left of it.
fn split(text: &str) -> (Vec<String>, Option<String>) {
    let mut splitter = Splitter::new();
    let mut statements = Vec::new();
    for line in text.lines() {
        splitter.push_line(line);
        while let Some(statement) = next_statement(&mut splitter) {
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
    assert_eq!(next_statement(&mut splitter), None);
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
    assert_eq!(next_statement(&mut splitter), None);
    splitter.clear();
    splitter.push_line("select 1;");
    assert_eq!(next_statement(&mut splitter).map(|piece| piece.text).as_deref(), Some("select 1"));
    assert_eq!(splitter.waiting(), Waiting::Statement);
}

#[test]
fn statements_know_the_line_they_begin_on() {
    let mut splitter = Splitter::new();
    for line in ["-- a comment", "", "select 1; select", "2;", "", "select 3"] {
        splitter.push_line(line);
    }
    let lines: Vec<usize> =
        std::iter::from_fn(|| next_statement(&mut splitter)).map(|piece| piece.line).collect();
    assert_eq!(lines, [1, 3]);
    assert_eq!(splitter.finish().map(|piece| piece.line), Some(6));
}

#[test]
fn a_backslash_in_plain_text_begins_a_command() {
    assert_eq!(tokens("\\timing on\nselect 1;"), ["[\\timing on]", "select 1"]);
    assert_eq!(tokens("select 2; \\echo a \\echo 'b\\\\'"), ["select 2", "[\\echo a]", "[\\echo 'b\\\\']"]);
    assert_eq!(tokens("\\echo a \\\\ select 1; select 2;"), ["[\\echo a]", "select 1", "select 2"]);
    assert_eq!(tokens("select '\\q'; -- \\q\nselect $$\\q$$;").len(), 2);
    assert_eq!(tokens("\\copy t from 'a\\b' (null '\\N')"), ["[\\copy t from 'a\\b' (null '\\N')]"]);
    assert_eq!(tokens("\\g | tr a '\\n'\n\\o file \\x"), ["[\\g | tr a '\\n']", "[\\o file]", "[\\x]"]);
}

#[test]
fn a_command_finds_the_statement_before_it_and_one_semicolon_may_send_nothing() {
    let mut splitter = Splitter::new();
    splitter.push_line("select 1\\; select");
    splitter.push_line("2 \\gx -- behind");
    assert_eq!(splitter.next_token(), Some(Token::Command("\\gx -- behind".to_owned())));
    assert_eq!(splitter.take_begun().map(|piece| piece.text).as_deref(), Some("select 1; select\n2"));
    assert_eq!(splitter.next_token(), None);
    assert_eq!(splitter.take_begun(), None);
}

#[test]
fn a_statement_goes_on_behind_what_is_passed_over() {
    let mut splitter = Splitter::new();
    let mut take = |line: &str| {
        splitter.push_line(line);
        splitter.next_token()
    };
    assert_eq!(take("select 1"), None);
    assert_eq!(take("\\if 0"), Some(Token::Command("\\if 0".to_owned())));
    splitter.skip();
    splitter.push_line("+ 2;");
    assert!(matches!(splitter.next_token(), Some(Token::Statement(_))));
    splitter.push_line("+ 3 \\endif");
    assert!(matches!(splitter.next_token(), Some(Token::Command(_))));
    splitter.resume();
    splitter.push_line("+ 4;");
    splitter.push_line("select 5;");
    let pieces: Vec<Piece> = std::iter::from_fn(|| next_statement(&mut splitter)).collect();
    assert_eq!(pieces[0].text.split_whitespace().collect::<Vec<_>>().join(" "), "select 1 + 4");
    assert_eq!((pieces[0].line, pieces[1].line), (1, 6));
}
