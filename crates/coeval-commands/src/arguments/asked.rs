// SPDX-License-Identifier: Apache-2.0
//! How a command goes to the server that has a directory open.

use clap::Args;
use std::path::PathBuf;

/// See the help of each.
#[derive(Debug, Default, Args)]
pub(crate) struct AskedArguments {
    /// As whom to ask the server that has the database open, a superuser; the --user that it was started with if not given, or
    /// coeval if it has none
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// The file with the password for that; nobody else may read it
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// How to reach that server, if not by what it has written into the directory. libpq's words, as host=db1 port=5432 user=me
    /// sslrootcert=FILE (then over TLS)
    #[arg(long, value_name = "SERVER")]
    pub(crate) server: Option<String>,
}
