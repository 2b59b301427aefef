// SPDX-License-Identifier: Apache-2.0
//! Who is logged in: what a browser has to show, what it is to repeat, and when that ends.
//!
//! The cookie of a login holds 256 random bits, of which only a digest is kept. A second value, which only the page learns, has to
//! come with each request that changes something: another site can make a browser send the cookie at most.

use crate::report::Report;
use crate::results::{Room, Row, ShownColumn, values_of};
use crate::tabs::Tab;
use crate::wire::{Column, Connection, Identity, Lost, columns_of};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use coeval_server::Entrance;
use parking_lot::Mutex;
use postgres_protocol::Oid;
use postgres_protocol::message::backend::Message;
use postgres_types::Type;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex as AsyncMutex;

/// A login ends that has asked nothing for so long.
const IDLE_MAX: Duration = Duration::from_secs(60 * 60);

/// Whoever is logged in for so long proves anew who it is.
const AGE_MAX: Duration = Duration::from_secs(12 * 60 * 60);

/// Logins at a time; one more ends the one that has asked nothing for longest.
const LOGINS_MAX: usize = 256;

/// Tabs of a login.
const TABS_MAX: usize = 32;

/// Rows of an answer to one of the page's own questions.
const ANSWER_ROWS_MAX: i32 = 10_000;

/// And its bytes.
const ANSWER_BYTES_MAX: usize = 32 << 20;

/// How sessions begin that answer the page's own questions.
const ASKING_SETTINGS: [(&str, &str); 4] = [
    ("application_name", "coeval console"),
    ("default_transaction_read_only", "on"),
    ("default_transaction_isolation", "read committed"),
    ("statement_timeout", "10s"),
];

/// How sessions of tabs begin.
pub(crate) const TAB_SETTINGS: [(&str, &str); 1] = [("application_name", "coeval console (query)")];

/// 256 random bits that go into a header.
fn random_text() -> String {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).expect("the system gives random numbers");
    URL_SAFE_NO_PAD.encode(bytes)
}

type Digest = [u8; 32];

fn digest_of(text: &str) -> Digest {
    digest(&SHA256, text.as_bytes()).as_ref().try_into().expect("it has 256 bits")
}

/// An answer to one of the page's own questions.
#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    columns: Vec<ShownColumn>,
    rows: Vec<Row>,
    truncated: bool,
}

/// Somebody who is logged in.
///
/// # Locking
/// `asking` is held while a question is answered; the others are leaves.
pub(crate) struct Login {
    pub(crate) identity: Identity,
    pub(crate) is_superuser: bool,
    pub(crate) version: String,
    csrf: String,
    began: Instant,
    last_used: Mutex<Instant>,
    entrance: Entrance,
    room: Arc<Room>,
    asking: AsyncMutex<Option<Connection>>,
    /// Names of types that PostgreSQL does not have.
    types: Mutex<HashMap<Oid, String>>,
    tabs: Mutex<HashMap<String, Arc<Tab>>>,
}

impl Login {
    /// What the page has to send with what changes something.
    pub(crate) fn csrf(&self) -> &str {
        &self.csrf
    }

    /// Whether `given` is that; in a time that says nothing about where they differ.
    pub(crate) fn proves(&self, given: &str) -> bool {
        digest_of(given) == digest_of(&self.csrf)
    }

    fn is_over(&self, now: Instant) -> bool {
        let is_busy = self.tabs.lock().values().any(|tab| tab.is_running());
        let is_idle = now.duration_since(*self.last_used.lock()) > IDLE_MAX && !is_busy;
        is_idle || now.duration_since(self.began) > AGE_MAX
    }

    /// The name of a new tab; nothing if there are as many as there may be.
    pub(crate) fn add_tab(&self) -> Option<String> {
        let mut tabs = self.tabs.lock();
        if tabs.len() >= TABS_MAX {
            return None;
        }
        let name = random_text();
        let tab = Tab::new(self.entrance.clone(), self.identity.clone(), Arc::clone(&self.room));
        tabs.insert(name.clone(), Arc::new(tab));
        Some(name)
    }

    pub(crate) fn tab(&self, name: &str) -> Option<Arc<Tab>> {
        let tab = self.tabs.lock().get(name).cloned()?;
        tab.note_seen();
        Some(tab)
    }

    pub(crate) fn remove_tab(&self, name: &str) -> Option<Arc<Tab>> {
        self.tabs.lock().remove(name)
    }

    /// The columns of a statement, as the page gets them; asks for names of types that nobody knows yet.
    pub(crate) async fn shown(&self, columns: Vec<Column>) -> Vec<ShownColumn> {
        let is_unknown = |oid: &Oid| Type::from_oid(*oid).is_none() && !self.types.lock().contains_key(oid);
        if columns.iter().any(|column| is_unknown(&column.type_oid)) {
            // A name that is not found is a number to the reader: no reason to keep rows back.
            let _ = self.learn_types().await;
        }
        columns
            .into_iter()
            .map(|Column { name, type_oid }| {
                let known = Type::from_oid(type_oid).map(|known| known.name().to_owned());
                let own = || self.types.lock().get(&type_oid).cloned();
                ShownColumn { name, type_name: known.or_else(own).unwrap_or_else(|| type_oid.to_string()) }
            })
            .collect()
    }

    async fn learn_types(&self) -> Result<(), Report> {
        let (_, rows, _) = self.asked("SELECT oid, typname FROM pg_catalog.pg_type", &[]).await?;
        let mut types = self.types.lock();
        for row in rows {
            if let [Some(oid), Some(name)] = &row[..]
                && let Ok(oid) = oid.parse()
            {
                types.insert(oid, name.clone());
            }
        }
        Ok(())
    }

    /// Answers one of the page's own questions: one statement, read-only, of bounded time and length.
    pub(crate) async fn ask(&self, sql: &str, parameters: &[Option<String>]) -> Result<Answer, Report> {
        let (columns, rows, truncated) = self.asked(sql, parameters).await?;
        Ok(Answer { columns: Box::pin(self.shown(columns)).await, rows, truncated })
    }

    async fn asked(
        &self,
        sql: &str,
        parameters: &[Option<String>],
    ) -> Result<(Vec<Column>, Vec<Row>, bool), Report> {
        let mut asking = self.asking.lock().await;
        // Taken out while it is in use: a question that is given up on the way leaves none that is in the middle of another.
        let mut connection = match asking.take() {
            Some(connection) => connection,
            None => Connection::open(&self.entrance, &self.identity, &ASKING_SETTINGS).await?,
        };
        let answered = answered(&mut connection, sql, parameters).await.map_err(Lost::from)?;
        *asking = Some(connection);
        answered
    }
}

/// What a statement gives, or the error that it ends with; outside of that, why the session has ended.
async fn answered(
    connection: &mut Connection,
    sql: &str,
    parameters: &[Option<String>],
) -> std::io::Result<Result<(Vec<Column>, Vec<Row>, bool), Report>> {
    connection.begin_statement(sql, parameters, ANSWER_ROWS_MAX).await?;
    let (mut columns, mut rows, mut bytes, mut truncated) = (Vec::new(), Vec::new(), 0, false);
    let mut failure = None;
    loop {
        match connection.next().await? {
            Message::RowDescription(described) => columns = columns_of(&described)?,
            Message::DataRow(row) => {
                bytes += row.buffer().len();
                if bytes <= ANSWER_BYTES_MAX {
                    rows.push(values_of(row.buffer())?);
                } else {
                    truncated = true;
                }
            }
            Message::PortalSuspended => truncated = true,
            Message::CopyInResponse(_) => connection.refuse_copy().await?,
            Message::ErrorResponse(error) => failure = Some(Report::of(error.fields())?),
            Message::ReadyForQuery(_) => break,
            _ => {}
        }
    }
    Ok(match failure {
        Some(failure) => Err(failure),
        None => Ok((columns, rows, truncated)),
    })
}

/// See the module.
///
/// # Locking
/// `by_digest` is a leaf but for what a login takes to say whether it is over.
pub(crate) struct Logins {
    entrance: Entrance,
    room: Arc<Room>,
    by_digest: Mutex<HashMap<Digest, Arc<Login>>>,
}

impl Logins {
    pub(crate) fn new(entrance: Entrance, room: Arc<Room>) -> Self {
        Self { entrance, room, by_digest: Mutex::default() }
    }

    /// Lets somebody in whom the server lets in; with what the browser has to show from then on.
    pub(crate) async fn enter(&self, identity: Identity) -> Result<(String, Arc<Login>), Report> {
        let connection = Connection::open(&self.entrance, &identity, &ASKING_SETTINGS).await?;
        let now = Instant::now();
        let login = Arc::new(Login {
            identity,
            is_superuser: connection.is_superuser,
            version: connection.version.clone(),
            csrf: random_text(),
            began: now,
            last_used: Mutex::new(now),
            entrance: self.entrance.clone(),
            room: Arc::clone(&self.room),
            asking: AsyncMutex::new(Some(connection)),
            types: Mutex::default(),
            tabs: Mutex::default(),
        });
        let token = random_text();
        let mut by_digest = self.by_digest.lock();
        if by_digest.len() >= LOGINS_MAX {
            let oldest = by_digest.iter().min_by_key(|(_, login)| *login.last_used.lock());
            if let Some(oldest) = oldest.map(|(digest, _)| *digest) {
                by_digest.remove(&oldest);
            }
        }
        by_digest.insert(digest_of(&token), Arc::clone(&login));
        Ok((token, login))
    }

    /// Whose token it is.
    pub(crate) fn find(&self, token: &str) -> Option<Arc<Login>> {
        let digest = digest_of(token);
        let mut by_digest = self.by_digest.lock();
        let login = Arc::clone(by_digest.get(&digest)?);
        let now = Instant::now();
        if login.is_over(now) {
            by_digest.remove(&digest);
            return None;
        }
        *login.last_used.lock() = now;
        Some(login)
    }

    /// Ends a login, with its sessions.
    pub(crate) fn leave(&self, token: &str) {
        let left = self.by_digest.lock().remove(&digest_of(token));
        if let Some(left) = left {
            left.tabs.lock().clear();
        }
    }

    /// Ends logins and tabs that are over.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        self.by_digest.lock().retain(|_, login| {
            login.tabs.lock().retain(|_, tab| !tab.is_over(now));
            !login.is_over(now)
        });
    }
}
