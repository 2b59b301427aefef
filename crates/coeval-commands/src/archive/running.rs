// SPDX-License-Identifier: Apache-2.0
//! A backup of a database that a server has open: the server makes it, and is asked for it as by any client.

use crate::arguments::BackupArguments;
use crate::failure::Failure;
use crate::interrupt::{Interrupt, STOPPING};
use crate::remote::{Server, reason};
use crate::serve::secret_in;
use crate::served;
use coeval::Holder;
use coeval_replica::{PrimaryAddress, TlsMode};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio_postgres::error::SqlState;

/// Who may do everything on a server that was started without a user.
const ADMINISTRATOR: &str = "coeval";

/// Has the server make the backup, and gives what it says of it. `place` is where the server finds it, whatever directory it works
/// in; `holder` has the directory open.
///
/// # Errors
/// If no server says that it is there, it lets nobody in, or makes no backup.
pub(super) fn back_up(arguments: &BackupArguments, place: &str, holder: &Holder) -> Result<String, Failure> {
    let dir = directory(&arguments.dir)?;
    let request = Request { place, dir: &dir, address: address(arguments, place, holder)? };
    let interrupted = Arc::new(Notify::new());
    let noting = Arc::clone(&interrupted);
    Interrupt::watch_and(STOPPING, move || noting.notify_one());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::work("cannot start a runtime", error))?;
    runtime.block_on(request.run(&interrupted))
}

/// The directory as the server knows it.
fn directory(dir: &Path) -> Result<String, Failure> {
    let whole = dir.canonicalize();
    let whole =
        whole.map_err(|error| Failure::work(format_args!("cannot look at {}", dir.display()), error))?;
    Ok(whole.display().to_string())
}

/// Where the server is, and as whom to go there.
fn address(arguments: &BackupArguments, place: &str, holder: &Holder) -> Result<PrimaryAddress, Failure> {
    let mut address = match &arguments.server {
        Some(words) => PrimaryAddress::parse(words).map_err(|error| Failure::Usage(error.to_string()))?,
        None => told(&arguments.dir, place, holder)?,
    };
    if let Some(user) = &arguments.user {
        user.clone_into(&mut address.user);
    }
    if let Some(file) = &arguments.password_file {
        address.password = Some(secret_in(file)?);
    }
    Ok(address)
}

/// What the server has written into the directory. What another process has left there is not followed: by now somebody else may
/// listen at that address.
fn told(dir: &Path, place: &str, holder: &Holder) -> Result<PrimaryAddress, Failure> {
    let shown = dir.display();
    let read = served::read(dir);
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
            by_hand(place)
        ))
    })?;
    let nearby = served.nearby();
    Ok(PrimaryAddress {
        host: nearby.ip().to_string(),
        port: nearby.port(),
        user: served.user.unwrap_or_else(|| ADMINISTRATOR.to_owned()),
        password: None,
        tls: TlsMode::Disable,
        application_name: "coeval backup".to_owned(),
        slot: None,
    })
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The statement for who is connected to the server already.
fn by_hand(place: &str) -> String {
    format!("SELECT coeval_backup({})", literal(place))
}

/// A backup that a server is asked for.
struct Request<'a> {
    place: &'a str,
    dir: &'a str,
    address: PrimaryAddress,
}

impl Request<'_> {
    async fn run(&self, interrupted: &Notify) -> Result<String, Failure> {
        let server = match Server::connect(&self.address).await {
            Ok(server) => server,
            Err(Failure::Work(message)) => return Err(self.with_advice(message)),
            Err(other) => return Err(other),
        };
        // It takes as long as it takes; Ctrl-C ends it.
        server.rows("SET statement_timeout = 0").await?;
        let sql = format!("SELECT coeval_backup({}, {})", literal(self.place), literal(self.dir));
        let mut answer = std::pin::pin!(server.ask(&sql));
        let answered = tokio::select! {
            answered = &mut answer => answered,
            () = interrupted.notified() => {
                server.cancel().await;
                answer.await
            }
        };
        let rows = answered.map_err(|error| self.refused(&error))?;
        let said = rows.into_iter().next().and_then(|row| row.into_iter().next().flatten());
        said.ok_or_else(|| Failure::Work(format!("{} says nothing of the backup", self.server())))
    }

    fn refused(&self, error: &tokio_postgres::Error) -> Failure {
        let said = error.as_db_error();
        let hint = said.and_then(|said| said.hint()).map(|hint| format!(" ({hint})")).unwrap_or_default();
        let message = format!("{} makes no backup: {}{hint}", self.server(), reason(error));
        if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
            return self.with_advice(message);
        }
        Failure::Work(message)
    }

    fn server(&self) -> impl fmt::Display {
        format!("the server of {} at {}", self.dir, self.address)
    }

    /// What to do about a server that does not let in whoever has come, or does not let him do that.
    fn with_advice(&self, message: String) -> Failure {
        Failure::Work(format!(
            "{message}. {} is asked as {}: --user and --password-file name a superuser, --server another way there (over TLS: \
             sslrootcert=FILE); or run there as a superuser: {}",
            self.server(),
            self.address.user,
            by_hand(self.place)
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
        let told_by = |pid| match told(dir, "/an archive's", &holder(pid)) {
            Ok(address) => format!("{}@{address}", address.user),
            Err(Failure::Work(message)) => message,
            Err(other) => panic!("{other:?}"),
        };
        let by_hand = "SELECT coeval_backup('/an archive''s')";
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
