// SPDX-License-Identifier: Apache-2.0
//! The file `served` of a database directory: where the server listens that has the directory open. By it commands on the same
//! machine find that server, as the directory is not theirs to open.
//!
//! It is there from when the server listens until it stops. One that a killed server has left counts for nothing: whoever opens the
//! directory next removes it, and it names the process, which has to be the one that the lock names.
//!
//! ```text
//! process 4711
//! user app                    that of --user, if there is one
//! address 127.0.0.1:5432
//! ```

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Its name in the directory.
pub(crate) const FILE_NAME: &str = "served";

/// What it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    /// The server's process.
    pub(crate) process: u32,
    /// The superuser that the server was started with.
    pub(crate) user: Option<String>,
    /// Where it listens.
    pub(crate) address: SocketAddr,
}

/// The file. It goes when this is dropped.
#[derive(Debug)]
pub(crate) struct ServedFile(PathBuf);

impl ServedFile {
    /// Writes it, in a directory that this process has open. Nobody else may read it.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn write(dir: &Path, served: &Served) -> io::Result<Self> {
        forget(dir);
        let path = dir.join(FILE_NAME);
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&path)?;
        let written = Self(path);
        file.write_all(served.to_string().as_bytes())?;
        Ok(written)
    }
}

impl Drop for ServedFile {
    fn drop(&mut self) {
        // One that stays names a process that has not got the directory any more.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Removes what a killed server has left, in a directory that this process has open.
pub(crate) fn forget(dir: &Path) {
    let path = dir.join(FILE_NAME);
    if let Err(error) = std::fs::remove_file(&path)
        && error.kind() != ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "what a former server has left is not removed");
    }
}

/// What the file of a directory says; nothing if there is none, or it is being written.
///
/// # Errors
/// If it is there and cannot be read, as by another user of the machine.
pub(crate) fn read(dir: &Path) -> io::Result<Option<Served>> {
    match std::fs::read_to_string(dir.join(FILE_NAME)) {
        Ok(text) => Ok(Served::parse(&text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl Served {
    fn parse(text: &str) -> Option<Self> {
        // The address comes last: with the end of its line, all has been written.
        let lines = text.strip_suffix('\n')?.lines().filter_map(|line| line.split_once(' '));
        let word = |wanted: &str| lines.clone().find(|(name, _)| *name == wanted).map(|(_, value)| value);
        let process = word("process")?.parse().ok()?;
        let address = word("address")?.parse().ok()?;
        Some(Self { process, user: word("user").map(str::to_owned), address })
    }

    /// Where somebody on the same machine finds it.
    pub(crate) fn nearby(&self) -> SocketAddr {
        let ip = match self.address.ip() {
            ip if !ip.is_unspecified() => ip,
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        SocketAddr::new(ip, self.address.port())
    }
}

impl fmt::Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "process {}", self.process)?;
        // A name of several lines would say something else.
        if let Some(user) = self.user.as_ref().filter(|user| !user.contains(['\n', '\r'])) {
            writeln!(f, "user {user}")?;
        }
        writeln!(f, "address {}", self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn served(user: Option<&str>, address: &str) -> Served {
        Served { process: 4711, user: user.map(str::to_owned), address: address.parse().unwrap() }
    }

    #[test]
    fn what_is_written_is_read_by_its_owner_until_it_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let (dir, path) = (directory.path(), directory.path().join(FILE_NAME));
        assert_eq!(read(dir).unwrap(), None);
        for (user, address) in
            [(None, "127.0.0.1:5432"), (Some("the user"), "[::1]:6432"), (Some("app"), "0.0.0.0:1")]
        {
            // What a killed server has left is in nobody's way.
            std::fs::write(&path, "process 1\naddress 127.0.0.1:1\n").unwrap();
            let written = served(user, address);
            let file = ServedFile::write(dir, &written).unwrap();
            assert_eq!(read(dir).unwrap(), Some(written));
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            drop(file);
            assert_eq!(read(dir).unwrap(), None);
        }
    }

    #[test]
    fn what_is_not_complete_says_nothing() {
        for text in ["", "process 1\n", "process 1\naddress 127.0.0.1:54", "process x\naddress 127.0.0.1:1\n"]
        {
            assert_eq!(Served::parse(text), None, "{text:?}");
        }
        assert_eq!(served(Some("a\nprocess 5"), "127.0.0.1:1").to_string().lines().count(), 2);
    }

    #[test]
    fn who_listens_everywhere_is_found_on_the_loopback() {
        for (address, nearby) in [
            ("0.0.0.0:5432", "127.0.0.1:5432"),
            ("[::]:5432", "[::1]:5432"),
            ("10.0.0.7:5432", "10.0.0.7:5432"),
        ] {
            assert_eq!(served(None, address).nearby().to_string(), nearby);
        }
    }
}
