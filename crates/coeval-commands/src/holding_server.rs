// SPDX-License-Identifier: Apache-2.0
//! The server that has a directory open, for commands whose work it does: where it is, and as whom it is asked.

use crate::arguments::AskedArguments;
use crate::failure::Failure;
use crate::served;
use coeval::Holder;
use coeval_replica::{PrimaryAddress, TlsMode};
use std::path::Path;

/// Who may do everything on a server that was started without a user.
const ADMINISTRATOR: &str = "coeval";

/// What a command has a server do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order<'a> {
    /// The command, as the server lists the session.
    pub(crate) command: &'a str,
    /// The directory.
    pub(crate) dir: &'a Path,
    /// The statement for who is connected to the server already.
    pub(crate) by_hand: &'a str,
}

impl Order<'_> {
    /// Where the server is that has the directory open, as `holder`, and as whom to go there, with this password.
    ///
    /// # Errors
    /// If no server says that it is there, or the arguments are malformed.
    pub(crate) fn address(
        &self,
        arguments: &AskedArguments,
        password: Option<String>,
        holder: &Holder,
    ) -> Result<PrimaryAddress, Failure> {
        let mut address = match &arguments.server {
            Some(words) => PrimaryAddress::parse(words).map_err(|error| Failure::Usage(error.to_string()))?,
            None => self.told(holder)?,
        };
        if let Some(user) = &arguments.user {
            user.clone_into(&mut address.user);
        }
        if password.is_some() {
            address.password = password;
        }
        Ok(address)
    }

    /// What the server has written into the directory. What another process has left there is not followed: by now somebody else may
    /// listen at that address.
    fn told(&self, holder: &Holder) -> Result<PrimaryAddress, Failure> {
        let shown = self.dir.display();
        let read = served::read(self.dir);
        let read = read.map_err(|error| {
            Failure::work(
                format_args!("{shown} is in use by {holder}, and cannot be asked where it listens"),
                error,
            )
        })?;
        let served = read.filter(|served| holder.pid == Some(served.process)).ok_or_else(|| {
            Failure::Work(format!(
                "{shown} is in use by {holder}, which does not say that it listens: if it is a server, try again when it does, or run \
                 there as a superuser: {}",
                self.by_hand
            ))
        })?;
        let nearby = served.nearby();
        Ok(PrimaryAddress {
            host: nearby.ip().to_string(),
            port: nearby.port(),
            user: served.user.unwrap_or_else(|| ADMINISTRATOR.to_owned()),
            password: None,
            tls: TlsMode::Disable,
            application_name: self.command.to_owned(),
            slot: None,
        })
    }

    /// What to do about a server, `named` so, that does not let in whoever has come, or does not let him do that.
    pub(crate) fn with_advice(&self, message: &str, named: &str, user: &str) -> Failure {
        Failure::Work(format!(
            "{message}. {named} is asked as {user}: --user and --password-file name a superuser, --server another way there (over TLS: \
             sslrootcert=FILE); or run there as a superuser: {}",
            self.by_hand
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::served::{Served, ServedFile};

    fn holder(pid: Option<u32>) -> Holder {
        Holder { pid, command: "coeval sql".to_owned() }
    }

    #[test]
    fn a_server_is_where_its_file_says_if_it_has_the_directory() {
        let directory = tempfile::tempdir().unwrap();
        let dir = directory.path();
        let by_hand = "SELECT coeval_backup('/an archive''s')";
        let order = Order { command: "coeval backup", dir, by_hand };
        let told_by = |pid| match order.told(&holder(pid)) {
            Ok(address) => format!("{}@{address}", address.user),
            Err(Failure::Work(message)) => message,
            Err(other) => panic!("{other:?}"),
        };
        assert!(told_by(Some(7)).contains(by_hand), "there is no file");
        for (user, found) in [(None, "coeval@127.0.0.1:5432"), (Some("app"), "app@127.0.0.1:5432")] {
            let user = user.map(str::to_owned);
            let served = Served { process: 7, user, address: "0.0.0.0:5432".parse().unwrap() };
            let _file = ServedFile::write(dir, &served).unwrap();
            assert_eq!(told_by(Some(7)), found);
            // What has been left by another process.
            assert!(told_by(Some(8)).contains(by_hand) && told_by(None).contains(by_hand));
        }
    }
}
