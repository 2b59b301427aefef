// SPDX-License-Identifier: Apache-2.0
//! The command line of what somebody does first: `init`, `doctor`, `completions`, `manual`.

use super::directory_alone;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Make a new database, with data to play with if you like
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  coeval init my-data
  coeval init --example shop shop          customers, products, orders and their lines
  coeval init --example metrics metrics    what machines measured, in a brick table")]
pub(crate) struct InitArguments {
    /// Where; there is nothing yet, or an empty directory
    #[arg(value_name = "DIR", value_parser = directory_alone(BEGUN_BY_USE))]
    pub(crate) dir: PathBuf,
    /// Data to play with
    #[arg(long)]
    pub(crate) example: Option<Example>,
}

/// What to do instead of making a database in memory for others.
const BEGUN_BY_USE: &str = "`coeval sql :memory:` and `coeval serve :memory:` begin with a new database each";

/// What to do instead of looking at the disk of a database in memory.
const ON_A_DISK: &str = "name a directory, whose disk is looked at";

/// Data to play with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Example {
    /// A shop: 30,000 orders of 2,000 customers
    Shop,
    /// What 40 machines measured in a week: 400,000 rows in bricks
    Metrics,
}

/// Say what this machine, and a directory on it, give a database, and what to set
///
/// Looks at processors, memory, open files, the file system with its free room and how long a synced write takes, and the clock.
/// The directory need not be there; nothing is left in it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  coeval doctor
  coeval doctor my-data")]
pub(crate) struct DoctorArguments {
    /// Where the database is, or is to be [default: here]
    #[arg(value_name = "DIR", value_parser = directory_alone(ON_A_DISK))]
    pub(crate) dir: Option<PathBuf>,
}

/// Print what a shell needs to complete commands and options
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  coeval completions bash >~/.local/share/bash-completion/completions/coeval
  coeval completions fish >~/.config/fish/completions/coeval.fish
  coeval completions zsh >\"${fpath[1]}/_coeval\"")]
pub(crate) struct CompletionsArguments {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

/// Write the pages for man: one of the program, and one of each command
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  coeval manual ~/.local/share/man/man1
  man coeval-serve")]
pub(crate) struct ManualArguments {
    /// Where they are written; made if it is not there
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}
