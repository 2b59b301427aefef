// SPDX-License-Identifier: Apache-2.0
//! Commands of the shell itself: lines that begin with a backslash, and a few that begin with a point, for who comes from SQLite.

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
    Include(String),
    Echo(String),
    Reset,
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

/// A file that is to become a table, or rows of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Import {
    pub(crate) file: String,
    /// The name of the file without its end, if none is given.
    pub(crate) table: Option<String>,
}

/// What `\?` prints.
pub(crate) const HELP: &str = "\
Statements end with a semicolon and may take several lines. Ctrl-C drops what was typed, Ctrl-D leaves.

  \\d              tables, views and sequences
  \\d NAME         one of them: columns, indexes, constraints
  \\dt \\di \\dv     tables, indexes, views; with a pattern: \\dt order*
  \\ds \\dn         sequences, schemas
  \\dt+ \\d+        tables, or all of them, with rows, size and comment
  \\dp \\du \\dT     rights, roles, types
  \\l              databases
  \\e              the last statement in $VISUAL or $EDITOR (vi), and run what comes of it
  \\watch SECONDS  run the last statement again and again, up to Ctrl-C; every 2 seconds if nothing is said
  \\i FILE         run the statements of a file; also .read FILE
  .import FILE    a Parquet, CSV or JSON file as a table; .import FILE TABLE into one that may be there already
  \\timing         say how long each statement took, or no longer
  \\x              one line for each column instead of one for each row; \\x auto when rows are too wide
  \\pager          what is longer than the screen goes through $PAGER (less), or no longer
  \\echo TEXT      print the text
  \\r              drop what was typed
  \\?              this
  \\q              leave

System tables: coeval_tables, coeval_store, coeval_transactions, coeval_snapshots, information_schema.tables, .columns, ...
";

/// Reads a command line.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn parse(line: &str) -> Result<Command, String> {
    let line = line.trim().trim_end_matches(';').trim_end();
    let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let argument = argument.trim();
    let optional = (!argument.is_empty()).then(|| argument.to_owned());
    let list = |kind| Ok(Command::List(kind, optional.clone()));
    // What psql shows more of behind a plus is shown in any case, but for sizes.
    let (name, has_plus) = match name.strip_suffix('+') {
        Some(short) if short.starts_with("\\d") => (short, true),
        _ => (name, false),
    };
    match name {
        "\\dt" if has_plus => Ok(Command::Sizes(SizesOf::Tables, optional)),
        "\\d" if has_plus && optional.is_none() => Ok(Command::Sizes(SizesOf::All, None)),
        "\\q" | "\\quit" => Ok(Command::Quit),
        "\\?" | "\\h" | "\\help" => Ok(Command::Help),
        "\\timing" => turn(name, argument).map(Command::Timing),
        "\\x" => turn(name, argument).map(Command::Expanded),
        "\\d" => Ok(optional.map_or(Command::List(ListKind::All, None), Command::Describe)),
        "\\dt" => list(ListKind::Tables),
        "\\di" => list(ListKind::Indexes),
        "\\dv" => list(ListKind::Views),
        "\\ds" => list(ListKind::Sequences),
        "\\dn" => list(ListKind::Schemas),
        "\\i" | "\\include" => optional
            .map(|file| Command::Include(unquoted(&file)))
            .ok_or_else(|| format!("{name} needs a file")),
        ".read" => optional
            .map(|file| Command::Include(unquoted(&file)))
            .ok_or_else(|| format!("{name} needs a file")),
        ".import" => import(argument).map(Command::Import),
        ".tables" => list(ListKind::Tables),
        ".quit" | ".exit" => Ok(Command::Quit),
        ".help" => Ok(Command::Help),
        "\\du" | "\\dg" => Ok(Command::Roles),
        "\\dT" => Ok(Command::Types),
        "\\dp" | "\\z" => Ok(Command::Rights(optional)),
        "\\l" => Ok(Command::Databases),
        "\\e" | "\\edit" => Ok(Command::Edit),
        "\\watch" => pause(argument).map(Command::Watch),
        "\\pager" => turn(name, argument).map(Command::Pager),
        "\\echo" => Ok(Command::Echo(argument.to_owned())),
        "\\r" | "\\reset" => Ok(Command::Reset),
        other => Err(format!("{other} is no command; \\? lists them")),
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

/// A file, quoted if it has blanks in it, and perhaps a table.
fn import(argument: &str) -> Result<Import, String> {
    let (file, table) = match argument.strip_prefix('\'') {
        Some(quoted) => quoted.split_once('\'').ok_or("the quote of the file does not end")?,
        None => argument.split_once(char::is_whitespace).unwrap_or((argument, "")),
    };
    if file.is_empty() {
        return Err(".import needs a file".to_owned());
    }
    let table = table.trim();
    Ok(Import { file: file.to_owned(), table: (!table.is_empty()).then(|| table.to_owned()) })
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

fn unquoted(text: &str) -> String {
    let inner = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
    inner.unwrap_or(text).to_owned()
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
        assert_eq!(parse("\\i 'a file.sql'"), Ok(Command::Include("a file.sql".to_owned())));
        assert_eq!(parse("\\echo  two  words"), Ok(Command::Echo("two  words".to_owned())));
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
    fn what_is_no_command_is_refused() {
        assert!(parse("\\zzz").unwrap_err().contains("\\zzz"));
        assert!(parse("\\i").is_err());
        assert!(parse(".import").is_err() && parse(".import 'x").is_err());
        assert!(parse("\\watch -1").is_err() && parse("\\watch soon").is_err());
        assert!(parse("\\timing auto").is_err());
    }

    #[test]
    fn patterns_match_whole_names() {
        assert!(matches("order*", "order_line") && matches("*line", "order_line") && matches("*", ""));
        assert!(matches("o?der", "order") && !matches("o?der", "orrder") && !matches("order", "orders"));
        assert!(matches("*r*e*", "order_line") && !matches("*x*", "order_line"));
    }
}
