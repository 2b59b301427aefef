// SPDX-License-Identifier: Apache-2.0
//! Somebody who asks a server that may be gone, and comes back to it.

use crate::failure::Failure;
use crate::remote::{Server, reason};
use tokio::runtime::{Builder, Runtime};

/// A session, or the wish for one. Its transactions are at REPEATABLE READ, which replicas give as well.
pub(super) struct Asked {
    words: String,
    runtime: Runtime,
    server: Option<Server>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Refused {
    /// Nothing has happened: it may be asked again.
    Nothing(String),
    /// It may have happened or not.
    Unknown(String),
    /// It is wrong to ask that.
    Failed(String),
}

impl Refused {
    /// What to say of it where it should have worked.
    pub(super) fn failure(self, doing: &str) -> Failure {
        let (Self::Nothing(why) | Self::Unknown(why) | Self::Failed(why)) = self;
        Failure::work(doing, why)
    }
}

impl Asked {
    /// Of the server at these words of libpq. There is no connection yet.
    ///
    /// # Errors
    /// If the system does not let it.
    pub(super) fn new(words: String) -> Result<Self, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::work("cannot start a runtime", error))?;
        Ok(Self { words, runtime, server: None })
    }

    /// The rows of a statement, as texts.
    ///
    /// # Errors
    /// See [`Refused`].
    pub(super) fn ask(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Refused> {
        let Self { words, runtime, server } = self;
        runtime.block_on(async {
            let open = match server.take() {
                Some(open) => open,
                None => {
                    let opened = Server::open(words).await;
                    opened.map_err(|failure| Refused::Nothing(format!("{failure:?}")))?
                }
            };
            let answer = open.ask(sql).await.map_err(|error| refused(&error));
            if !matches!(answer, Err(Refused::Unknown(_))) {
                *server = Some(open);
            }
            answer
        })
    }
}

fn refused(error: &tokio_postgres::Error) -> Refused {
    let why = reason(error);
    match error.code().map(tokio_postgres::error::SqlState::code) {
        Some("40001" | "57P03") => Refused::Nothing(why),
        // The connection is gone, or the server is about to be.
        None | Some("08007" | "57P01" | "57P02") => Refused::Unknown(why),
        Some(_) => Refused::Failed(why),
    }
}
