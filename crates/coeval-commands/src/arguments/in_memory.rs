// SPDX-License-Identifier: Apache-2.0
//! `:memory:` where a command line names the directory of a database. SQLite, DuckDB and this project's drivers call a database in memory
//! so, which ends with the program.
//!
//! `coeval sql` and `coeval serve` take it as `--in-memory`. The other commands refuse it: they would make a directory of that name, or look
//! for one. Whoever has such a directory says `./:memory:`.

use super::{Arguments, Command, ServeArguments, SqlArguments};
use clap::builder::{PathBufValueParser, StringValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// How a database in memory is called.
const NAME: &str = ":memory:";

/// What to do instead, for commands that work on a database which is there already.
pub(super) const OF_ITS_PROGRAM: &str = "no other program reaches it: name a directory";

/// Options of a command, and whether each of them is given.
type Given<const COUNT: usize> = [(&'static str, bool); COUNT];

impl Arguments {
    /// Reads a command line, whose first word is the program's name.
    ///
    /// # Errors
    /// If it makes no sense; and if it asks for help, which is printed as an error is.
    pub(crate) fn read(
        command_line: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> Result<Self, clap::Error> {
        let mut arguments = Self::try_parse_from(command_line)?;
        match &mut arguments.command {
            Command::Sql(sql) => {
                let needing_a_directory = sql.needing_a_directory();
                take(&mut sql.dir, &mut sql.in_memory, &needing_a_directory)?;
            }
            Command::Serve(serve) => {
                let needing_a_directory = serve.needing_a_directory();
                take(&mut serve.dir, &mut serve.in_memory, &needing_a_directory)?;
            }
            _ => {}
        }
        Ok(arguments)
    }
}

impl SqlArguments {
    /// Options that have no meaning without a directory.
    const fn needing_a_directory(&self) -> Given<1> {
        [("--salvage", self.salvage)]
    }
}

impl ServeArguments {
    /// Options that have no meaning without a directory.
    const fn needing_a_directory(&self) -> Given<5> {
        [
            ("--salvage", self.salvage),
            ("--archive", self.archive.is_some()),
            ("--replica-of", self.replica_of.is_some()),
            ("--synchronous-standby-names", self.synchronous_standby_names.is_some()),
            ("--cluster", self.node.cluster.is_some()),
        ]
    }
}

/// Makes `--in-memory` of a directory that is called like a database in memory.
///
/// # Errors
/// If an option is given that needs a directory.
fn take(
    dir: &mut Option<PathBuf>,
    in_memory: &mut bool,
    needing_a_directory: &[(&str, bool)],
) -> Result<(), clap::Error> {
    if !dir.as_deref().is_some_and(is_in_memory) {
        return Ok(());
    }
    if let Some((option, _)) = needing_a_directory.iter().find(|(_, is_given)| *is_given) {
        let message = format!("{option} needs a directory: {NAME} is a database in memory, which has none");
        return Err(Arguments::command().error(ErrorKind::ArgumentConflict, message));
    }
    *dir = None;
    *in_memory = true;
    Ok(())
}

/// Whether this names a database in memory. Paths are not compared as such: `:memory:/` is a directory.
fn is_in_memory(path: &Path) -> bool {
    path.as_os_str() == NAME
}

/// A parser of directories, for a command that has nothing to do with a database in memory. `instead` says what to do instead.
pub(super) fn directory_alone(instead: &'static str) -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(
        move |path| {
            if is_in_memory(&path) { Err(refusal(instead)) } else { Ok(path) }
        },
    )
}

/// A parser of places of archives, which outlast programs.
pub(super) fn archive() -> impl TypedValueParser<Value = String> {
    StringValueParser::new().try_map(|place| {
        if place == NAME { Err(refusal("name a directory, or a place in a cloud")) } else { Ok(place) }
    })
}

fn refusal(instead: &str) -> String {
    format!("what is in memory ends with its program; {instead}")
}
