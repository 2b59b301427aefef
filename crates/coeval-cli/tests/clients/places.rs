// SPDX-License-Identifier: Apache-2.0
//! Where the clients are.

use crate::program::{Expected, Program};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where to look for clients and their programs.
pub(crate) struct Places {
    /// The programs: the folder of this file.
    programs: PathBuf,
    /// What `install` has installed.
    installed: PathBuf,
    /// PostgreSQL's own programs, if they are not on the search path.
    postgres: Option<PathBuf>,
}

/// Whether the command can be run and succeeds.
fn succeeds(command: &mut Command) -> bool {
    let silent = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    silent.status().is_ok_and(|status| status.success())
}

impl Places {
    pub(crate) fn find() -> Self {
        let installed = env::var_os("COEVAL_CLIENTS_DIR").map(PathBuf::from).unwrap_or_else(|| {
            Path::new(&env::var_os("HOME").unwrap_or_default()).join(".cache/coeval-clients")
        });
        // Debian keeps what is not meant for everyone there.
        let postgres = Path::new("/usr/lib/postgresql/15/bin");
        Self {
            programs: env::current_dir().expect("the package's directory").join("tests/clients"),
            installed,
            postgres: postgres.is_dir().then(|| postgres.to_path_buf()),
        }
    }

    /// Whether a client that is missing is a failure.
    pub(crate) fn all_are_required(&self) -> bool {
        env::var_os("COEVAL_CLIENTS").is_some_and(|value| value == "required")
    }

    /// One of PostgreSQL's own programs, of version 15: others print other things.
    pub(crate) fn of_postgres(&self, name: &str) -> Option<PathBuf> {
        let beside = self.postgres.iter().map(|folder| folder.join(name));
        beside.chain([PathBuf::from(name)]).find(|path| {
            let output = Command::new(path).arg("--version").stdin(Stdio::null()).output();
            output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(" 15."))
        })
    }

    /// A script of psql's, which has to print what is in the file beside it.
    pub(crate) fn psql(&self, script: &str) -> Option<Program> {
        let psql = self.of_postgres("psql")?;
        let file = |extension: &str| self.programs.join("psql").join(script).with_extension(extension);
        // What it prints and what went wrong, in one stream, in order.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" -X -a -q < \"$1\" 2>&1"]).arg(psql).arg(file("sql"));
        let wanted = fs::read_to_string(file("out")).unwrap();
        Some(Program { command, expected: Expected::Output(wanted) })
    }

    /// psql, given several servers.
    pub(crate) fn psql_of_several_hosts(&self) -> Option<Program> {
        let mut command = Command::new("bash");
        command.arg(self.programs.join("psql/several_hosts")).arg(self.of_postgres("psql")?);
        Some(Program { command, expected: Expected::Success })
    }

    pub(crate) fn pgbench(&self) -> Option<Program> {
        let (pgbench, psql) = (self.of_postgres("pgbench")?, self.of_postgres("psql")?);
        let mut command = Command::new("bash");
        command.arg(self.programs.join("pgbench/run")).args([pgbench, psql]);
        Some(Program { command, expected: Expected::Success })
    }

    pub(crate) fn pg_dump(&self) -> Option<Program> {
        let (pg_dump, psql) = (self.of_postgres("pg_dump")?, self.of_postgres("psql")?);
        let folder = self.programs.join("pg_dump");
        let mut command = Command::new("bash");
        command.arg(folder.join("run")).args([pg_dump, psql, folder]);
        Some(Program { command, expected: Expected::Success })
    }

    /// A program in Python, for an interpreter that has these modules.
    pub(crate) fn python(&self, program: &str, modules: &[&str]) -> Option<Program> {
        let imports = format!("import {}", modules.join(", "));
        let python = [self.installed.join("venv/bin/python"), PathBuf::from("python3")]
            .into_iter()
            .find(|python| succeeds(Command::new(python).args(["-c", &imports])))?;
        let mut command = Command::new(python);
        command.arg("-B").arg(self.programs.join("python").join(program));
        Some(Program { command, expected: Expected::Success })
    }

    /// A program in Python that makes random statements, which a PostgreSQL of its own has to answer in the same way.
    pub(crate) fn random(&self, program: &str) -> Option<Program> {
        let initdb = self.of_postgres("initdb")?;
        let mut program = self.python(program, &["psycopg"])?;
        program.command.arg(initdb);
        Some(program)
    }

    /// As [`random`](Self::random); it starts and kills servers itself.
    pub(crate) fn random_with_kills(&self, program: &str) -> Option<Program> {
        let mut program = self.random(program)?;
        program.command.arg(env!("CARGO_BIN_EXE_coeval"));
        Some(program)
    }

    pub(crate) fn node(&self) -> Option<Program> {
        let mut node = Command::new("node");
        let modules = "for (const name of ['pg', 'pg-cursor', 'pg-query-stream']) require(name)";
        node.env("NODE_PATH", self.installed.join("node/node_modules"));
        if !succeeds(node.args(["-e", modules])) {
            return None;
        }
        let mut command = Command::new("node");
        command.env("NODE_PATH", self.installed.join("node/node_modules"));
        command.arg(self.programs.join("node/pg_client.js"));
        Some(Program { command, expected: Expected::Success })
    }

    /// A program in Java, which is one file.
    pub(crate) fn pgjdbc(&self, program: &str) -> Option<Program> {
        let jars = fs::read_dir(self.installed.join("pgjdbc")).ok()?;
        let driver = jars.filter_map(|entry| entry.ok().map(|entry| entry.path())).find(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("postgresql-"))
        })?;
        if !succeeds(Command::new("javac").arg("-version")) {
            return None;
        }
        let mut command = Command::new("java");
        command.arg("-cp").arg(driver).arg(self.programs.join("pgjdbc").join(program));
        Some(Program { command, expected: Expected::Success })
    }

    /// A program in Go, by its folder.
    pub(crate) fn pgx(&self, package: &str) -> Option<Program> {
        let go = || {
            let mut go = Command::new("go");
            go.current_dir(self.programs.join("pgx")).env("GOPROXY", "off").env("GOTOOLCHAIN", "local");
            go
        };
        if !succeeds(go().args(["mod", "download"])) {
            return None;
        }
        let mut command = go();
        command.args(["run", package]);
        Some(Program { command, expected: Expected::Success })
    }
}
