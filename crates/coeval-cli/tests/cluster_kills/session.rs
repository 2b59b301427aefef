// SPDX-License-Identifier: Apache-2.0
//! A session of a client that waits for no answer for ever.

use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

/// Where clients come to a node.
pub(crate) type At = (Ipv4Addr, u16);

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The server has said so.
    Said { state: String, message: String },
    /// The connection is gone, or nothing has come in time: nobody here knows what has happened.
    Lost(String),
}

impl Refused {
    fn of(error: &tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(said) => {
                Self::Said { state: said.code().code().to_owned(), message: said.message().to_owned() }
            }
            None => Self::Lost(error.to_string()),
        }
    }

    /// The SQLSTATE, if the server has said one.
    pub(crate) fn state(&self) -> &str {
        match self {
            Self::Said { state, .. } => state,
            Self::Lost(_) => "",
        }
    }
}

/// See the module.
pub(crate) struct Session {
    runtime: Runtime,
    client: Client,
}

impl Session {
    /// At REPEATABLE READ if nothing else is said, as replicas have no other level for who loads.
    pub(crate) fn open((host, port): At, patience: Duration) -> Result<Self, Refused> {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let mut config = Config::new();
        config.host(host.to_string()).port(port).user("coeval").dbname("coeval");
        let client = runtime.block_on(async {
            let connected = timeout(patience, config.connect(NoTls)).await;
            let connected = connected.map_err(|_| Refused::Lost("nobody answers".to_owned()))?;
            let (client, connection) = connected.map_err(|error| Refused::of(&error))?;
            // How it ends is told by the statements.
            tokio::spawn(async move { drop(connection.await) });
            Ok::<_, Refused>(client)
        })?;
        let session = Self { runtime, client };
        session.rows("SET default_transaction_isolation = 'repeatable read'", patience)?;
        Ok(session)
    }

    /// The rows of all statements of a text, one behind the other. NULL is an empty text.
    pub(crate) fn rows(&self, sql: &str, patience: Duration) -> Result<Vec<Vec<String>>, Refused> {
        self.runtime.block_on(async {
            let answered = timeout(patience, self.client.simple_query(sql)).await;
            let answered = answered.map_err(|_| Refused::Lost("there is no answer".to_owned()))?;
            let messages = answered.map_err(|error| Refused::of(&error))?;
            let rows = messages.iter().filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => {
                    let cells = (0..row.len()).map(|place| row.get(place).unwrap_or_default().to_owned());
                    Some(cells.collect())
                }
                _ => None,
            });
            Ok(rows.collect())
        })
    }

    /// The first value; nothing is an empty text.
    pub(crate) fn value(&self, sql: &str, patience: Duration) -> Result<String, Refused> {
        let rows = self.rows(sql, patience)?;
        Ok(rows.into_iter().next().and_then(|row| row.into_iter().next()).unwrap_or_default())
    }
}
