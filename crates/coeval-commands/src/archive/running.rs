// SPDX-License-Identifier: Apache-2.0
//! A backup of a database that a server has open: the server makes it, and is asked for it as by any client.

use crate::arguments::BackupArguments;
use crate::failure::Failure;
use crate::holding_server::Order;
use crate::interrupt::{Interrupt, STOPPING};
use crate::remote::{Server, reason};
use crate::secret_file::secret_in;
use coeval::Holder;
use coeval_replica::PrimaryAddress;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_postgres::error::SqlState;

/// Has the server make the backup, and gives what it says of it. `place` is where the server finds it, whatever directory it works
/// in; `holder` has the directory open.
///
/// # Errors
/// If no server says that it is there, it lets nobody in, or makes no backup.
pub(super) fn back_up(arguments: &BackupArguments, place: &str, holder: &Holder) -> Result<String, Failure> {
    let dir = directory(&arguments.dir)?;
    let by_hand = by_hand(place, arguments);
    let order = Order { command: "coeval backup", dir: &arguments.dir, by_hand: &by_hand };
    let password = arguments.asked.password_file.as_deref().map(secret_in).transpose()?;
    let address = order.address(&arguments.asked, password, holder)?;
    let leave_out = if arguments.row_tables_alone { ROW_TABLES } else { "" };
    let sql = format!("SELECT coeval_backup({}, {}, {})", literal(place), literal(&dir), literal(leave_out));
    let request = Request { sql, dir: &dir, order, address };
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

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// How `coeval_backup()` is told to leave out rows of spread tables.
const ROW_TABLES: &str = "row tables";

/// The statement for who is connected to the server already.
fn by_hand(place: &str, arguments: &BackupArguments) -> String {
    let leave_out =
        if arguments.row_tables_alone { format!(", '', {}", literal(ROW_TABLES)) } else { String::new() };
    format!("SELECT coeval_backup({}{leave_out})", literal(place))
}

/// How long a server that was told to end a backup may take. It brings a checkpoint, or the reading of a file, to its end before.
const STOP_PATIENCE: Duration = Duration::from_secs(120);

/// A backup that a server is asked for.
struct Request<'a> {
    sql: String,
    dir: &'a str,
    order: Order<'a>,
    address: PrimaryAddress,
}

impl Request<'_> {
    async fn run(&self, interrupted: &Notify) -> Result<String, Failure> {
        let server = tokio::select! {
            reached = self.reached() => reached?,
            () = interrupted.notified() => {
                return Err(Failure::Work(format!("{} was not asked for a backup", self.server())));
            }
        };
        let mut answer = std::pin::pin!(server.ask(&self.sql));
        let answered = tokio::select! {
            answered = &mut answer => answered,
            () = interrupted.notified() => {
                server.cancel().await;
                let ended = tokio::time::timeout(STOP_PATIENCE, answer.as_mut()).await;
                ended.map_err(|_| Failure::Work(format!("{} does not say that it has stopped", self.server())))?
            }
        };
        let rows = answered.map_err(|error| self.refused(&error))?;
        let said = rows.into_iter().next().and_then(|row| row.into_iter().next().flatten());
        said.ok_or_else(|| Failure::Work(format!("{} says nothing of the backup", self.server())))
    }

    /// The server, which lets in whoever asks.
    async fn reached(&self) -> Result<Server, Failure> {
        let server = match Server::connect(&self.address).await {
            Ok(server) => server,
            Err(Failure::Work(message)) => return Err(self.with_advice(&message)),
            Err(other) => return Err(other),
        };
        // It takes as long as it takes; Ctrl-C ends it.
        server.rows("SET statement_timeout = 0").await?;
        Ok(server)
    }

    fn refused(&self, error: &tokio_postgres::Error) -> Failure {
        let said = error.as_db_error();
        let hint = said.and_then(|said| said.hint()).map(|hint| format!(" ({hint})")).unwrap_or_default();
        let message = format!("{} makes no backup: {}{hint}", self.server(), reason(error));
        if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
            return self.with_advice(&message);
        }
        Failure::Work(message)
    }

    fn server(&self) -> impl fmt::Display {
        format!("the server of {} at {}", self.dir, self.address)
    }

    /// What to do about a server that does not let in whoever has come, or does not let him do that.
    fn with_advice(&self, message: &str) -> Failure {
        self.order.with_advice(message, &self.server().to_string(), &self.address.user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::tests::silent;

    /// Fails, without an end, if Ctrl-C is heard only once the server has let somebody in: it was noted, and the program went on waiting.
    #[test]
    fn who_waits_for_a_server_that_says_nothing_may_give_up() {
        let (_listener, address) = silent();
        let order = Order { command: "coeval backup", dir: Path::new("data"), by_hand: "" };
        let request = Request { sql: String::new(), dir: "data", order, address };
        let interrupted = Notify::new();
        interrupted.notify_one();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        match runtime.block_on(request.run(&interrupted)) {
            Err(Failure::Work(said)) => assert!(said.contains("was not asked for a backup"), "{said}"),
            other => panic!("{other:?}"),
        }
    }
}
