// SPDX-License-Identifier: Apache-2.0
//! Commands of the shell itself: they begin with a backslash, and a few with a point, for who comes from SQLite.

mod arguments;
mod copy;

pub(crate) use copy::{CopyCommand, CopyDirection, CopyEnd};

use super::variables::Variables;
use arguments::Arguments;
use std::time::Duration;

/// What to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// Tables, views and sequences.
    All,
    Tables,
    Indexes,
    Views,
    Sequences,
    Schemas,
}

/// Whose sizes to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SizesOf {
    Tables,
    /// Views and sequences, too.
    All,
}

/// A switch and what it becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    On,
    Off,
    /// The other way.
    Over,
    /// On when it has to be.
    Auto,
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Quit,
    Help,
    Timing(Turn),
    Expanded(Turn),
    List(ListKind, Option<String>),
    Describe(String),
    Include(String, FoundFrom),
    Echo(Echo),
    Reset,
    /// The statement that was typed, or the last one.
    Go(Delivery),
    /// Results go to this file or, behind `|`, to this program; or are shown again.
    Output(Option<String>),
    /// A variable and its value.
    Set(String, String),
    /// All variables with their values.
    ShowVariables,
    Unset(String),
    Copy(CopyCommand),
    /// The last statement again and again, with this pause.
    Watch(Duration),
    /// Long results through a pager.
    Pager(Turn),
    Roles,
    Types,
    Databases,
    /// Relations with their sizes.
    Sizes(SizesOf, Option<String>),
    /// Who may do what.
    Rights(Option<String>),
    /// The last statement through an editor.
    Edit,
    Import(Import),
}

/// Where the name of a file that is to be run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoundFrom {
    /// In the folder that the shell works in.
    Here,
    /// In the folder of the file that names it.
    Script,
}

/// What is printed as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Echo {
    /// With the end of its line, if it is to have one.
    pub(crate) text: String,
    pub(crate) into: EchoInto,
}

/// Where it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EchoInto {
    Output,
    /// Where results are.
    Results,
    Errors,
}

/// What becomes of the result of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// It is printed, into this file or by this program if there is one.
    Print(Layout, Option<String>),
    /// Its only row becomes variables, whose names begin with this.
    Variables(String),
    /// Its columns are listed; it is not run.
    Columns,
    /// Its values are run as statements.
    Statements,
}

/// How one result is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// As the others.
    Usual,
    /// With a line for each column.
    Expanded,
}

/// A file that is to become a table, or rows of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Import {
    pub(crate) file: String,
    /// The name of the file without its end, if none is given.
    pub(crate) table: Option<String>,
}

/// What `\?` prints.
pub(crate) const HELP: &str = include_str!("command/help.txt");

/// Reads a command with its arguments.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn parse(line: &str, variables: &Variables) -> Result<Command, String> {
    let line = line.trim();
    let (name, behind) = divide(line);
    match name {
        "\\echo" | "\\qecho" | "\\warn" => return Ok(echo(name, &words_of(behind, variables)?)),
        "\\set" => return Ok(set(&words_of(behind, variables)?)),
        "\\copy" => return CopyCommand::parse(behind).map(Command::Copy),
        "\\o" | "\\out" => return target(name, behind, variables).map(Command::Output),
        "\\g" | "\\gx" => {
            let layout = if name == "\\gx" { Layout::Expanded } else { Layout::Usual };
            let target = target(name, behind, variables)?;
            return Ok(Command::Go(Delivery::Print(layout, target)));
        }
        _ => {}
    }
    // A semicolon is not needed behind a command, and does no harm.
    let (name, behind) = divide(line.trim_end_matches(';').trim_end());
    let mut words = words_of(behind, variables)?.into_iter();
    let (first, second) = (words.next(), words.next());
    parse_listing(name, first.as_deref())
        .or_else(|| parse_switch(name, first.as_deref().unwrap_or_default()))
        .unwrap_or_else(|| parse_other(name, first, second))
}

/// The command that a bare word stands for at the terminal, in capitals or not, with a semicolon or without.
pub(crate) fn of_word(line: &str) -> Option<&'static str> {
    let word = line.trim().trim_end_matches(';').trim_end();
    match word.to_ascii_lowercase().as_str() {
        "help" => Some("\\?"),
        "quit" | "exit" => Some("\\q"),
        _ => None,
    }
}

/// The name of a command, and what stands behind it.
fn divide(line: &str) -> (&str, &str) {
    let (name, arguments) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    (name, arguments.trim())
}

/// The text behind `\if` or `\elif`.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn condition(line: &str, variables: &Variables) -> Result<String, String> {
    Ok(words_of(divide(line).1, variables)?.join(" "))
}

/// The arguments that a text holds.
fn words_of(text: &str, variables: &Variables) -> Result<Vec<String>, String> {
    Arguments::new(text, variables).all()
}

/// A command that shows what there is; `None` if it is none.
fn parse_listing(name: &str, first: Option<&str>) -> Option<Result<Command, String>> {
    let pattern = first.map(str::to_owned);
    // What psql shows more of behind a plus is shown in any case, but for sizes.
    let (name, has_plus) = match name.strip_suffix('+') {
        Some(short) if short.starts_with("\\d") => (short, true),
        _ => (name, false),
    };
    Some(Ok(match name {
        "\\dt" if has_plus => Command::Sizes(SizesOf::Tables, pattern),
        "\\d" if has_plus && pattern.is_none() => Command::Sizes(SizesOf::All, None),
        "\\d" => pattern.map_or(Command::List(ListKind::All, None), Command::Describe),
        "\\dt" | ".tables" => Command::List(ListKind::Tables, pattern),
        "\\di" => Command::List(ListKind::Indexes, pattern),
        "\\dv" => Command::List(ListKind::Views, pattern),
        "\\ds" => Command::List(ListKind::Sequences, pattern),
        "\\dn" => Command::List(ListKind::Schemas, pattern),
        "\\du" | "\\dg" => Command::Roles,
        "\\dT" => Command::Types,
        "\\dp" | "\\z" => Command::Rights(pattern),
        "\\l" => Command::Databases,
        "\\?" | "\\h" | "\\help" | ".help" => Command::Help,
        _ => return None,
    }))
}

/// A command that turns something on or off; `None` if it is none.
fn parse_switch(name: &str, argument: &str) -> Option<Result<Command, String>> {
    match name {
        "\\timing" => Some(turn(name, argument).map(Command::Timing)),
        "\\x" => Some(turn(name, argument).map(Command::Expanded)),
        "\\pager" => Some(turn(name, argument).map(Command::Pager)),
        _ => None,
    }
}

/// Any other command.
fn parse_other(name: &str, first: Option<String>, second: Option<String>) -> Result<Command, String> {
    let needed = |what: &str| first.clone().ok_or_else(|| format!("{name} needs {what}"));
    match name {
        "\\q" | "\\quit" | ".quit" | ".exit" => Ok(Command::Quit),
        "\\i" | "\\include" | ".read" => needed("a file").map(|file| Command::Include(file, FoundFrom::Here)),
        "\\ir" | "\\include_relative" => {
            needed("a file").map(|file| Command::Include(file, FoundFrom::Script))
        }
        ".import" => needed("a file").map(|file| Command::Import(Import { file, table: second })),
        "\\e" | "\\edit" => Ok(Command::Edit),
        "\\watch" => pause(first.as_deref().unwrap_or_default()).map(Command::Watch),
        "\\r" | "\\reset" => Ok(Command::Reset),
        "\\unset" => needed("the name of a variable").map(Command::Unset),
        "\\gset" => Ok(Command::Go(Delivery::Variables(first.unwrap_or_default()))),
        "\\gdesc" => Ok(Command::Go(Delivery::Columns)),
        "\\gexec" => Ok(Command::Go(Delivery::Statements)),
        other => Err(format!("{other} is no command; \\? lists them")),
    }
}

/// The words of `\echo` and its like, with one blank between two.
fn echo(name: &str, words: &[String]) -> Command {
    let text = match words.split_first() {
        Some((first, rest)) if first == "-n" => rest.join(" "),
        _ => words.join(" ") + "\n",
    };
    let into = match name {
        "\\qecho" => EchoInto::Results,
        "\\warn" => EchoInto::Errors,
        _ => EchoInto::Output,
    };
    Command::Echo(Echo { text, into })
}

/// A variable, and its value: what stands behind its name, without blanks between.
fn set(words: &[String]) -> Command {
    match words.split_first() {
        Some((name, values)) => Command::Set(name.clone(), values.concat()),
        None => Command::ShowVariables,
    }
}

/// The file of `\o` and `\g`, or all that stands behind `|`, as it stands there.
fn target(name: &str, behind: &str, variables: &Variables) -> Result<Option<String>, String> {
    if behind.starts_with('|') {
        return Ok(Some(behind.to_owned()));
    }
    let target = words_of(behind.trim_end_matches(';'), variables)?.into_iter().next();
    match target {
        Some(options) if options.starts_with('(') => Err(format!("{name} takes no options")),
        target => Ok(target),
    }
}

/// Whether a line is one of the commands that begin with a point. No statement does.
pub(crate) fn is_pointed(line: &str) -> bool {
    let rest = line.trim_start().strip_prefix('.');
    rest.is_some_and(|rest| rest.starts_with(|next: char| next.is_ascii_alphabetic()))
}

/// The pause of `\watch`, as psql reads it.
fn pause(argument: &str) -> Result<Duration, String> {
    if argument.is_empty() {
        return Ok(Duration::from_secs(2));
    }
    let seconds =
        argument.strip_prefix("i=").or_else(|| argument.strip_prefix("interval=")).unwrap_or(argument);
    let seconds = seconds.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| format!("\\watch takes seconds, not {argument}"))
}

fn turn(name: &str, argument: &str) -> Result<Turn, String> {
    match argument {
        "" => Ok(Turn::Over),
        "on" => Ok(Turn::On),
        "off" => Ok(Turn::Off),
        "auto" if name == "\\x" => Ok(Turn::Auto),
        other => Err(format!("{name} takes on or off, not {other}")),
    }
}

/// Whether a name fits a pattern in which `*` stands for any text and `?` for any character.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let mut pattern_characters = pattern.chars();
    match pattern_characters.next() {
        None => name.is_empty(),
        Some('*') => {
            let rest = pattern_characters.as_str();
            let tails = name.char_indices().map(|(start, _)| &name[start..]).chain([""]);
            tails.into_iter().any(|tail| matches(rest, tail))
        }
        Some(wanted) => {
            let mut name_characters = name.chars();
            match name_characters.next() {
                Some(found) if wanted == '?' || wanted == found => {
                    matches(pattern_characters.as_str(), name_characters.as_str())
                }
                Some(_) | None => false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command, String> {
        let mut variables = Variables::new();
        variables.set("file", "a file.sql")?;
        super::parse(line, &variables)
    }

    #[test]
    fn commands_and_their_arguments_are_read() {
        assert_eq!(parse("\\q"), Ok(Command::Quit));
        assert_eq!(parse("\\d"), Ok(Command::List(ListKind::All, None)));
        assert_eq!(parse("\\d  orders ;"), Ok(Command::Describe("orders".to_owned())));
        assert_eq!(parse("\\dt o*"), Ok(Command::List(ListKind::Tables, Some("o*".to_owned()))));
        assert_eq!(parse("\\dt+ o*"), Ok(Command::Sizes(SizesOf::Tables, Some("o*".to_owned()))));
        assert_eq!(parse("\\d+"), Ok(Command::Sizes(SizesOf::All, None)));
        assert_eq!(parse("\\d+ orders"), Ok(Command::Describe("orders".to_owned())));
        assert_eq!(parse("\\di+"), Ok(Command::List(ListKind::Indexes, None)));
        assert_eq!(parse("\\timing"), Ok(Command::Timing(Turn::Over)));
        assert_eq!(parse("\\x auto"), Ok(Command::Expanded(Turn::Auto)));
        let include = |from| Ok(Command::Include("a file.sql".to_owned(), from));
        assert_eq!(parse("\\i 'a file.sql'"), include(FoundFrom::Here));
        assert_eq!(parse("\\ir :file"), include(FoundFrom::Script));
        assert_eq!(parse("\\watch"), Ok(Command::Watch(Duration::from_secs(2))));
        assert_eq!(parse("\\watch 0.5"), Ok(Command::Watch(Duration::from_millis(500))));
        assert_eq!(parse("\\watch i=3"), Ok(Command::Watch(Duration::from_secs(3))));
        let import = |file: &str, table: Option<&str>| {
            Ok(Command::Import(Import { file: file.to_owned(), table: table.map(str::to_owned) }))
        };
        assert_eq!(parse(".import a.csv"), import("a.csv", None));
        assert_eq!(parse(".import 'a b.csv'  s.t"), import("a b.csv", Some("s.t")));
        assert!(is_pointed(" .import x") && !is_pointed(".5") && !is_pointed("SELECT 1"));
    }

    #[test]
    fn texts_variables_and_where_results_go_are_read() {
        let echo = |text: &str, into| Ok(Command::Echo(Echo { text: text.to_owned(), into }));
        assert_eq!(parse("\\echo  two  words;"), echo("two words;\n", EchoInto::Output));
        assert_eq!(parse("\\qecho -n :file"), echo("a file.sql", EchoInto::Results));
        assert_eq!(parse("\\warn"), echo("\n", EchoInto::Errors));
        assert_eq!(parse("\\set a b 'c d'"), Ok(Command::Set("a".to_owned(), "bc d".to_owned())));
        assert_eq!(parse("\\set"), Ok(Command::ShowVariables));
        assert_eq!(parse("\\o"), Ok(Command::Output(None)));
        assert_eq!(parse("\\o :file"), Ok(Command::Output(Some("a file.sql".to_owned()))));
        let print = |layout, target: Option<&str>| {
            Ok(Command::Go(Delivery::Print(layout, target.map(str::to_owned))))
        };
        assert_eq!(parse("\\g"), print(Layout::Usual, None));
        assert_eq!(parse("\\gx |tr a ':file'"), print(Layout::Expanded, Some("|tr a ':file'")));
        assert_eq!(parse("\\gset p_"), Ok(Command::Go(Delivery::Variables("p_".to_owned()))));
    }

    #[test]
    fn bare_words_stand_for_commands() {
        assert_eq!(of_word("help"), Some("\\?"));
        assert_eq!((of_word(" Quit ; "), of_word("EXIT")), (Some("\\q"), Some("\\q")));
        assert_eq!((of_word("help me"), of_word(""), of_word("\\q")), (None, None, None));
    }

    #[test]
    fn what_is_no_command_is_refused() {
        assert!(parse("\\zzz").unwrap_err().contains("\\zzz"));
        assert!(parse("\\i").is_err());
        assert!(parse(".import").is_err() && parse(".import 'x").is_err());
        assert!(parse("\\watch -1").is_err() && parse("\\watch soon").is_err());
        assert!(parse("\\timing auto").is_err());
        assert!(
            parse("\\unset").is_err() && parse("\\g (format=csv)").is_err() && parse("\\echo 'x").is_err()
        );
    }

    #[test]
    fn patterns_match_whole_names() {
        assert!(matches("order*", "order_line") && matches("*line", "order_line") && matches("*", ""));
        assert!(matches("o?der", "order") && !matches("o?der", "orrder") && !matches("order", "orders"));
        assert!(matches("*r*e*", "order_line") && !matches("*x*", "order_line"));
    }
}
