// SPDX-License-Identifier: Apache-2.0
//! Commands of the shell itself: lines that begin with a backslash.

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
}

/// What `\?` prints.
pub(crate) const HELP: &str = "\
Statements end with a semicolon and may take several lines. Ctrl-C drops what was typed, Ctrl-D leaves.

  \\d              tables, views and sequences
  \\d NAME         one of them: columns, indexes, constraints
  \\dt \\di \\dv    tables, indexes, views; with a pattern: \\dt order*
  \\ds \\dn        sequences, schemas
  \\i FILE         run the statements of a file
  \\timing         say how long each statement took, or no longer
  \\x              one line for each column instead of one for each row; \\x auto when rows are too wide
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
    match name {
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
        "\\echo" => Ok(Command::Echo(argument.to_owned())),
        "\\r" | "\\reset" => Ok(Command::Reset),
        other => Err(format!("{other} is no command; \\? lists them")),
    }
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
        assert_eq!(parse("\\timing"), Ok(Command::Timing(Turn::Over)));
        assert_eq!(parse("\\x auto"), Ok(Command::Expanded(Turn::Auto)));
        assert_eq!(parse("\\i 'a file.sql'"), Ok(Command::Include("a file.sql".to_owned())));
        assert_eq!(parse("\\echo  two  words"), Ok(Command::Echo("two  words".to_owned())));
    }

    #[test]
    fn what_is_no_command_is_refused() {
        assert!(parse("\\zzz").unwrap_err().contains("\\zzz"));
        assert!(parse("\\i").is_err());
        assert!(parse("\\timing auto").is_err());
    }

    #[test]
    fn patterns_match_whole_names() {
        assert!(matches("order*", "order_line") && matches("*line", "order_line") && matches("*", ""));
        assert!(matches("o?der", "order") && !matches("o?der", "orrder") && !matches("order", "orders"));
        assert!(matches("*r*e*", "order_line") && !matches("*x*", "order_line"));
    }
}
