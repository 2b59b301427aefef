// SPDX-License-Identifier: Apache-2.0
//! Who is logged in: what a browser has to show, what it is to repeat, and when that ends.
//!
//! The cookie of a login holds 256 random bits, of which only a digest is kept. A second value, which only the page learns, has to
//! come with each request that changes something: another site can make a browser send the cookie at most.

use crate::report::Report;
use crate::results::{Room, Row, ShownColumn, values_of};
use crate::tabs::Tab;
use crate::wire::{Column, Connection, Heard, Identity, Lost, QUESTION_PARTS, columns_of, unsendable};
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
use tokio::sync::{Mutex as AsyncMutex, Semaphore};

/// A login ends that has asked nothing for so long.
const IDLE_MAX: Duration = Duration::from_secs(60 * 60);

/// Whoever is logged in for so long proves anew who it is.
const AGE_MAX: Duration = Duration::from_secs(12 * 60 * 60);

/// Logins of one role; one more ends the one of these that has asked nothing for longest.
const LOGINS_OF_ROLE_MAX: usize = 32;

/// Logins of all roles; one more is refused.
const LOGINS_MAX: usize = 1_024;

/// Passwords that are proven at the same time: each takes a processor for some milliseconds.
const PROVEN_AT_ONCE: usize = 2;

/// Tabs of a login.
const TABS_MAX: usize = 16;

/// A session that answers the page's own questions ends when there was none for so long.
const UNASKED_MAX: Duration = Duration::from_secs(2 * 60);

/// How long an answer to one may take; the server ends its statement before that.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(15);

/// How long a ticket for a download is good for.
const TICKET_TIME_MAX: Duration = Duration::from_secs(60);

/// Rows of an answer to one of the page's own questions.
const ANSWER_ROWS_MAX: i32 = 10_000;

/// And its bytes.
const ANSWER_BYTES_MAX: usize = 32 << 20;

/// How sessions begin that answer the page's own questions.
const ASKING_SETTINGS: [(&str, &str); 3] = [
    ("application_name", "coeval console"),
    ("default_transaction_isolation", "read committed"),
    ("statement_timeout", "10s"),
];

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
    last_asked: Mutex<Instant>,
    /// For downloads, which are requests that cannot carry a header.
    tickets: Mutex<HashMap<String, Instant>>,
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
        now.duration_since(*self.last_used.lock()) > IDLE_MAX || now.duration_since(self.began) > AGE_MAX
    }

    /// Ends what runs in its tabs, and their sessions.
    fn end(&self) {
        for (_, tab) in self.tabs.lock().drain() {
            tab.ended.cancel();
        }
    }

    /// Ends tabs that nobody sees, and the session that nobody asks.
    fn sweep(&self, now: Instant) {
        self.tabs.lock().retain(|_, tab| {
            tab.forget_prepared(now, TICKET_TIME_MAX);
            let is_over = tab.is_over(now);
            if is_over {
                tab.ended.cancel();
            }
            !is_over
        });
        if now.duration_since(*self.last_asked.lock()) > UNASKED_MAX
            && let Ok(mut asking) = self.asking.try_lock()
        {
            *asking = None;
        }
        self.tickets.lock().retain(|_, made| now.duration_since(*made) < TICKET_TIME_MAX);
    }

    /// Something that lets its bearer download once, soon.
    pub(crate) fn ticket(&self) -> String {
        let ticket = random_text();
        self.tickets.lock().insert(ticket.clone(), Instant::now());
        ticket
    }

    /// Takes a ticket; whether it was one.
    pub(crate) fn take_ticket(&self, given: &str) -> bool {
        let made = self.tickets.lock().remove(given);
        made.is_some_and(|made| made.elapsed() < TICKET_TIME_MAX)
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

    /// Ends what runs in a tab, and its session; whether there was one.
    pub(crate) fn remove_tab(&self, name: &str) -> bool {
        let removed = self.tabs.lock().remove(name);
        removed.is_some_and(|tab| {
            tab.ended.cancel();
            true
        })
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
                let own = || self.types.lock().get(&type_oid).map(|own| told_apart(own));
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

    async fn asked(&self, sql: &str, parameters: &[Option<String>]) -> Given {
        if let Some(report) = unsendable(sql, parameters) {
            return Err(report);
        }
        let mut asking = self.asking.lock().await;
        *self.last_asked.lock() = Instant::now();
        loop {
            // Taken out while it is in use: a question that is given up on the way leaves none that is in the middle of another.
            let former = asking.take();
            let was_there = former.is_some();
            let mut connection = match former {
                Some(connection) => connection,
                None => Connection::open(&self.entrance, &self.identity, &ASKING_SETTINGS).await?,
            };
            let answer = answered(&mut connection, sql, parameters);
            let Ok(answer) = tokio::time::timeout(ANSWER_TIME_MAX, answer).await else {
                return Err(Report::own("57014", "the answer took too long"));
            };
            match answer {
                Ok(given) => {
                    *asking = Some(connection);
                    return given;
                }
                // One that was ended while nobody asked; a question does nothing that could be done twice.
                Err(_) if was_there => {}
                Err(lost) => return Err(lost.into()),
            }
        }
    }
}

/// What a question gives: columns, rows, and whether there are more of them.
type Given = Result<(Vec<Column>, Vec<Row>, bool), Report>;

/// The name of a type of the database, never to be taken for one of PostgreSQL's own.
fn told_apart(name: &str) -> String {
    let is_taken = name.is_empty() || BUILT_IN.contains(&name);
    if is_taken { format!("\"{name}\"") } else { name.to_owned() }
}

/// Types by whose names values are shown and exported in ways of their own.
const BUILT_IN: [&str; 10] =
    ["bool", "int2", "int4", "int8", "float4", "float8", "numeric", "oid", "json", "jsonb"];

/// What a question gives, in a transaction that only reads and is rolled back: whatever it is, it leaves nothing set for the next.
///
/// # Errors
/// Why the session has ended.
async fn answered(
    connection: &mut Connection,
    sql: &str,
    parameters: &[Option<String>],
) -> Result<Given, Lost> {
    connection.begin_question(sql, parameters, ANSWER_ROWS_MAX).await?;
    let (mut columns, mut rows, mut bytes, mut truncated) = (Vec::new(), Vec::new(), 0, false);
    let (mut failure, mut parts) = (None, 0);
    while parts < QUESTION_PARTS {
        let message = match connection.hear().await? {
            Heard::Message(message) => message,
            Heard::LongRow(_) => {
                (bytes, truncated) = (ANSWER_BYTES_MAX + 1, true);
                continue;
            }
        };
        match message {
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
            Message::ErrorResponse(error) => match Report::of(error.fields())? {
                last if last.is_last() => return Err(Lost::Ended(last)),
                report => failure = Some(report),
            },
            Message::ReadyForQuery(_) => parts += 1,
            _ => {}
        }
    }
    Ok(failure.map_or(Ok((columns, rows, truncated)), Err))
}

/// See the module.
///
/// # Locking
/// `by_digest` is a leaf but for what a login takes to say whether it is over.
pub(crate) struct Logins {
    entrance: Entrance,
    room: Arc<Room>,
    /// A permit for each password that is being proven.
    proven: Semaphore,
    by_digest: Mutex<HashMap<Digest, Arc<Login>>>,
}

impl Logins {
    /// Logins whose results have this room together, of which none has more than a half.
    pub(crate) fn new(entrance: Entrance, room: Arc<Room>) -> Self {
        let proven = Semaphore::new(PROVEN_AT_ONCE);
        Self { entrance, room, proven, by_digest: Mutex::default() }
    }

    /// Lets somebody in whom the server lets in; with what the browser has to show from then on.
    pub(crate) async fn enter(&self, identity: Identity) -> Result<(String, Arc<Login>), Report> {
        let connection = {
            let _place = self.proven.acquire().await;
            Connection::open(&self.entrance, &identity, &ASKING_SETTINGS).await?
        };
        let now = Instant::now();
        let login = Arc::new(Login {
            identity,
            is_superuser: connection.is_superuser,
            version: connection.version.clone(),
            csrf: random_text(),
            began: now,
            last_used: Mutex::new(now),
            entrance: self.entrance.clone(),
            room: self.room.half(),
            asking: AsyncMutex::new(Some(connection)),
            last_asked: Mutex::new(now),
            tickets: Mutex::default(),
            types: Mutex::default(),
            tabs: Mutex::default(),
        });
        let token = random_text();
        let mut by_digest = self.by_digest.lock();
        let of_role = || by_digest.iter().filter(|(_, other)| other.identity.user == login.identity.user);
        if of_role().count() >= LOGINS_OF_ROLE_MAX {
            let oldest =
                of_role().min_by_key(|(_, other)| *other.last_used.lock()).map(|(digest, _)| *digest);
            if let Some(former) = oldest.and_then(|oldest| by_digest.remove(&oldest)) {
                former.end();
            }
        } else if by_digest.len() >= LOGINS_MAX {
            return Err(Report::own("53300", "there are as many logins as there may be: try again later"));
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
            login.end();
            return None;
        }
        *login.last_used.lock() = now;
        Some(login)
    }

    /// Ends a login, with its sessions.
    pub(crate) fn leave(&self, token: &str) {
        let left = self.by_digest.lock().remove(&digest_of(token));
        if let Some(left) = left {
            left.end();
        }
    }

    /// Ends logins and tabs that are over.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        self.by_digest.lock().retain(|_, login| {
            let is_over = login.is_over(now);
            if is_over {
                login.end();
            } else {
                login.sweep(now);
            }
            !is_over
        });
    }
}
