// SPDX-License-Identifier: Apache-2.0
//! Replication connections: the commands of PostgreSQL's streaming replication, with our log inside.
//!
//! ```text
//! IDENTIFY_SYSTEM                          which database this is, its timeline and term, the end of its log, what it has
//!                                          promised, whether it is the primary, and the newest format that it writes
//! TERM_HISTORY                             the terms of its log, so that a former primary knows where its own has parted from it
//! PROMISE_TIMELINE 3 '+<candidate>'        a promise to acknowledge no lower timeline (see `coeval-store/src/promises.rs`), and
//!                                          how long the log is; without the `+` of a candidate whose program is older
//! BASE_BACKUP                              a copy of the newest checkpoint, as a COPY to the client
//! CREATE_REPLICATION_SLOT name PHYSICAL    the log is kept from here on for who follows by the slot
//! DROP_REPLICATION_SLOT name
//! START_REPLICATION [SLOT name] [PHYSICAL] 0/1A2B3C [TERM '<id>']
//!                                          the log from there on, as a COPY in both directions
//! ```
//! What is inside of the messages of a COPY is said in `coeval-store/src/following/frame.rs`; around it stands what PostgreSQL
//! puts there: `w` (places in the log and a time before each piece), `k` (a keepalive), and `r` from the client (how far it is).
//! Files and the log are read by a thread of their own for each connection, as fast as the client reads.

use super::held_log::HeldLog;
use super::{Connection, End, Failure, Phase};
use crate::auth::rules::Purpose;
use crate::protocol::backend::Severity;
use crate::protocol::frontend::{Formats, Frontend, violation};
use crate::protocol::input::{Frame as Message, Input};
use crate::types::{Column, columns_of};
use arrow::datatypes::{DataType, Field, Schema};
use coeval::{
    BaseCopy, CandidacyError, CommandTag, FORMAT_VERSION, Fed, Frame, LogFeed, Lsn, Promise, SqlError,
    SqlState, StoreError, Timeline, Word,
};
use coeval_sql::{CopyEncoding, Following, QuotaShare, Reply};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc;

/// Pieces that are read ahead of the client, a mebibyte or so each.
const PIECES_AHEAD: usize = 4;

/// How often it is looked whether safe snapshots may go further, while nothing is committed.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// A client that has the whole log is told so, and that we are there.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);

/// What takes a client longer than this to take is much, or the way to it is slow.
const TAKEN_SLOWLY: Duration = Duration::from_secs(1);

/// Of one that may be silent for any time it is looked so often how much is held for it.
const HELD_LOOK: Duration = Duration::from_secs(60);

/// For how long at least whoever gets a base copy may take nothing: it syncs each file at its end, and has nothing to say meanwhile.
const COPY_SILENCE_MAX: Duration = Duration::from_secs(600);

/// Who waits for a copy is told so often that it is being prepared: the checkpoint that it begins with takes as long as it takes.
const BUSY_INTERVAL: Duration = Duration::from_secs(2);

/// From 1970 to 2000, where PostgreSQL's times begin.
const EPOCH_SECONDS: u64 = 946_684_800;

/// What the reading thread has for the client.
#[derive(Debug)]
pub(super) enum Piece {
    /// Frames that go together, each with the end of the log with it.
    Frames(Vec<(Vec<u8>, Lsn)>),
    /// Nothing is new.
    Keepalive(Word),
    /// The copy is not ready to be sent.
    Busy,
    /// The copy is complete; the log behind it.
    CopyEnd(Box<LogFeed>),
    /// Nothing more can be read.
    Failed(SqlError),
}

/// What a client is being sent.
#[derive(Debug)]
pub(super) struct Replicating {
    pieces: mpsc::Receiver<Piece>,
    /// Up to where it has the log durably, for the thread that reads.
    confirmed: Arc<AtomicU64>,
    /// None for a copy.
    following: Option<Following>,
    /// When the client last said something, or took much of what it is sent.
    heard: Instant,
    /// Of one that follows without a slot.
    held: Option<HeldLog>,
}

impl Replicating {
    /// What comes next; nothing if the thread has ended without a word.
    pub(super) async fn next(&mut self) -> Option<Piece> {
        if self.following.is_some() {
            return self.pieces.recv().await;
        }
        match tokio::time::timeout(BUSY_INTERVAL, self.pieces.recv()).await {
            Ok(piece) => piece,
            Err(_) => Some(Piece::Busy),
        }
    }

    /// The client has said something.
    pub(super) fn note_heard(&mut self) {
        self.heard = Instant::now();
    }

    /// When the client will have been silent for this long, if it follows. Who gets a copy has nothing to say.
    pub(super) fn silent_at(&self, max: Option<Duration>) -> Option<Instant> {
        self.following.as_ref().and(max).and_then(|max| self.heard.checked_add(max))
    }
}

/// A command of a replication connection.
#[derive(Debug, PartialEq, Eq)]
enum Command {
    IdentifySystem,
    TermHistory,
    PromiseTimeline(Promise, Asker),
    CreateSlot(String),
    DropSlot(String),
    BaseBackup,
    StartReplication { slot: Option<String>, position: Lsn, term: Option<u64> },
}

/// What the program of a candidate knows of timelines that have one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker {
    /// They are told apart by who was promoted.
    TellsCandidates,
    /// Nothing: it is older, and compares numbers.
    ComparesNumbers,
}

impl Connection {
    pub(super) fn is_for_replication(&self) -> bool {
        self.purpose == Purpose::Replication
    }

    /// Answers a command, or begins to.
    pub(super) fn replication_command(&mut self, text: &str) -> Result<(), Failure> {
        self.begin_statement(Some(text));
        match parse(text)? {
            Command::IdentifySystem => {
                self.identify_system();
                self.after_statement();
                self.ready();
                Ok(())
            }
            Command::TermHistory => {
                let terms = self.shared.engine.store().terms().to_line();
                self.answer_with_row("TERM_HISTORY", [("terms", Some(terms))]);
                self.after_statement();
                self.ready();
                Ok(())
            }
            Command::PromiseTimeline(promise, asker) => {
                self.promise_timeline(promise, asker)?;
                self.after_statement();
                self.ready();
                Ok(())
            }
            Command::BaseBackup => self.begin_copy_of_database(),
            Command::CreateSlot(name) => {
                let place = self.shared.engine.store().create_slot(&name).map_err(SqlError::from)?;
                let place = Some(place.to_wal_text());
                let row = [
                    ("slot_name", Some(name)),
                    ("consistent_point", place),
                    ("snapshot_name", None),
                    ("output_plugin", None),
                ];
                self.answer_with_row("CREATE_REPLICATION_SLOT", row);
                self.after_statement();
                self.ready();
                Ok(())
            }
            Command::DropSlot(name) => {
                self.shared.engine.store().drop_slot(&name).map_err(SqlError::from)?;
                self.output.command_complete(CommandTag::Plain("DROP_REPLICATION_SLOT"));
                self.after_statement();
                self.ready();
                Ok(())
            }
            Command::StartReplication { slot, position, term } => {
                self.start_replication(slot.as_deref(), position, term)
            }
        }
    }

    fn identify_system(&mut self) {
        let store = self.shared.engine.store();
        let (terms, position) =
            (store.terms(), store.log_position().map_or(Lsn::START, |(_, durable)| durable));
        let term = terms.last();
        let role = match (store.is_following(), store.superseded_by()) {
            // Whoever does not know that word takes it for one that is no primary any more, and looks for another one.
            _ if store.is_salvaged() => "salvaged",
            (true, _) => "replica",
            (false, None) => "primary",
            (false, Some(_)) => "superseded",
        };
        let row = [
            ("systemid", Some(terms.database_id().to_string())),
            ("timeline", Some(terms.timeline().to_string())),
            ("xlogpos", Some(position.to_wal_text())),
            ("dbname", None),
            ("termid", Some(format!("{:016x}", term.map_or(0, |term| term.id)))),
            ("term", Some(term.map_or(0, |term| term.number).to_string())),
            ("promised", Some(store.timeline().to_string())),
            ("role", Some(role.to_owned())),
            ("format", Some(FORMAT_VERSION.to_string())),
            ("candidate", Some(format!("{:016x}", terms.timeline().candidate()))),
        ];
        self.answer_with_row("IDENTIFY_SYSTEM", row);
    }

    /// Gives a candidate what it needs to be promoted, or says that another has it. That ends the commits of whom it is asked of before:
    /// who may follow, as a feed does, may not ask for it by that alone.
    fn promise_timeline(&mut self, promise: Promise, asker: Asker) -> Result<(), SqlError> {
        self.session.check_asks_for_promises()?;
        let store = self.shared.engine.store();
        let standing = match asker {
            Asker::TellsCandidates => store.promise(promise)?,
            Asker::ComparesNumbers => {
                store.promise_number(promise.timeline, promise.candidate).map_err(no_promise)?
            }
        };
        tracing::warn!(timeline = %promise.timeline, "a timeline is promised: lower ones get no acknowledgement any more");
        let row = [
            ("term", Some(standing.term.to_string())),
            ("xlogpos", Some(standing.durable.to_wal_text())),
            ("candidate", Some(format!("{:016x}", standing.timeline.candidate()))),
        ];
        self.answer_with_row("PROMISE_TIMELINE", row);
        Ok(())
    }

    fn answer_with_row<const N: usize>(
        &mut self,
        tag: &'static str,
        row: [(&'static str, Option<String>); N],
    ) {
        let fields: Vec<Field> =
            row.iter().map(|(name, _)| Field::new(*name, DataType::Utf8, true)).collect();
        let columns = columns_of(&Schema::new(fields));
        self.output.row_description(columns.iter().map(Column::described), Formats::TEXT);
        self.output.text_row(&row.map(|(_, value)| value));
        self.output.command_complete(CommandTag::Plain(tag));
    }

    fn begin_copy_of_database(&mut self) -> Result<(), Failure> {
        let store = self.shared.engine.store().clone();
        let (sender, pieces) = mpsc::channel(PIECES_AHEAD);
        let mut place = QuotaShare::of(&self.shared.copies);
        place.take(1)?;
        let read = move || {
            let copied = store.checkpoint().and_then(|_| store.base_copy());
            // What sends it ends with its client.
            drop(place);
            let last = match copied.and_then(|copy| send_copy(copy, &sender)) {
                Ok(feed) => feed.map(Piece::CopyEnd),
                Err(error) => Some(Piece::Failed(error.into())),
            };
            last.map(|last| sender.blocking_send(last));
        };
        spawn(read)?;
        self.output.copy_response(b'H', CopyEncoding::Binary, 0);
        let heard = Instant::now();
        self.replicate(Replicating { pieces, confirmed: Arc::default(), following: None, heard, held: None });
        Ok(())
    }

    fn start_replication(
        &mut self,
        slot: Option<&str>,
        position: Lsn,
        term: Option<u64>,
    ) -> Result<(), Failure> {
        let behind_copy = self.behind_copy.take().filter(|feed| feed.position() == position);
        let feed = match behind_copy {
            Some(feed) => *feed,
            None => self.shared.engine.store().log_feed(term, position).map_err(SqlError::from)?,
        };
        let feed = match slot {
            Some(slot) => feed.with_slot(slot).map_err(SqlError::from)?,
            None => feed,
        };
        let (sender, pieces) = mpsc::channel(PIECES_AHEAD);
        let confirmed = Arc::new(AtomicU64::new(position.get()));
        let store = self.shared.engine.store().clone();
        let of_reader = Arc::clone(&confirmed);
        let held = slot.is_none().then(|| HeldLog::of(&store, position));
        spawn(move || {
            let check = |confirmed| held.map_or(Ok(()), |held| held.check(&store, confirmed));
            let feed = feed.ahead_of_publication();
            if let Err(error) = send_log(feed, &of_reader, &sender, &|| store.word(), &check) {
                // Whoever does not listen any more need not know.
                let _ = sender.blocking_send(Piece::Failed(error));
            }
        })?;
        let name = self.entry.shown().activity().application;
        let engine = &self.shared.engine;
        let following = engine.followers().add(engine.store(), self.entry.pid(), &name, slot, position);
        tracing::info!(pid = self.entry.pid(), %position, "a replica follows");
        self.output.copy_both_response();
        let heard = Instant::now();
        self.replicate(Replicating { pieces, confirmed, following: Some(following), heard, held });
        Ok(())
    }

    fn replicate(&mut self, replicating: Replicating) {
        self.phase = Phase::Replicating(Box::new(replicating));
        // A server that stops does not wait for it.
        self.entry.await_client(&self.session);
    }

    /// Puts a piece into what is to be sent.
    pub(super) fn send_piece(&mut self, piece: Option<Piece>) -> Result<(), End> {
        let Phase::Replicating(replicating) = &mut self.phase else { unreachable!("a piece has come") };
        let gone = || SqlError::internal("the thread that reads the log has ended");
        match piece.unwrap_or_else(|| Piece::Failed(gone())) {
            Piece::Frames(frames) => {
                let store = self.shared.engine.store();
                for (frame, end) in frames {
                    let mut message = Vec::with_capacity(frame.len() + 25);
                    if let Some(following) = &replicating.following {
                        message.push(b'w');
                        let durable = store.log_position().map_or(end, |(_, durable)| durable);
                        following.note_sent(end, durable);
                        [end.get(), durable.get(), now()].iter().for_each(|number| {
                            message.extend_from_slice(&number.to_be_bytes());
                        });
                    }
                    message.extend_from_slice(&frame);
                    self.output.copy_data(&message);
                }
            }
            Piece::Keepalive(word) => self.output.copy_data(&keepalive(word)),
            Piece::Busy => {
                let message = "the checkpoint that the copy begins with is being made";
                let notice = SqlError::new(SqlState::SuccessfulCompletion, message);
                self.output.report(Severity::Notice, &notice);
            }
            Piece::CopyEnd(feed) => {
                self.behind_copy = Some(feed);
                self.output.copy_done();
                self.end_replicating(CommandTag::Plain("BASE_BACKUP"));
            }
            Piece::Failed(error) => {
                self.phase = Phase::Ready;
                self.refuse(&error);
                self.ready();
            }
        }
        Ok(())
    }

    /// Sends what has gathered, as long as the client takes some of it, or says something, within the time for which it may be silent.
    pub(super) async fn flush_to_replica(&mut self, input: &mut Input) -> Result<(), End> {
        let max = self.shared.engine.store().follower_silence_max();
        let follows =
            matches!(&self.phase, Phase::Replicating(replicating) if replicating.following.is_some());
        let max = if follows { max } else { max.map(|max| max.max(COPY_SILENCE_MAX)) };
        let begun = Instant::now();
        loop {
            let unsent = self.output.unsent().len();
            if let Ok(flushed) = tokio::time::timeout(max.unwrap_or(HELD_LOOK), self.flush()).await {
                flushed.map_err(End::Gone)?;
                break;
            }
            self.check_held()?;
            // One that is busy takes nothing, and says that it is there.
            let is_there = self.output.unsent().len() < unsent || self.has_spoken(input).await?;
            if !is_there && max.is_some() {
                return Err(self.silent());
            }
        }
        // A little goes into the buffers on the way, also to a client that hangs.
        if begun.elapsed() > TAKEN_SLOWLY
            && let Phase::Replicating(replicating) = &mut self.phase
        {
            replicating.note_heard();
        }
        Ok(())
    }

    /// Fails if nothing more is to be held for who takes nothing more.
    fn check_held(&self) -> Result<(), End> {
        let Phase::Replicating(replicating) = &self.phase else { return Ok(()) };
        let confirmed = replicating.confirmed.load(Ordering::Relaxed);
        let checked = replicating.held.map(|held| held.check(self.shared.engine.store(), confirmed));
        checked.unwrap_or(Ok(())).map_err(End::Fatal)
    }

    /// Whether the client has said something by now. What that is, is read when what has gathered was sent.
    async fn has_spoken(&mut self, input: &mut Input) -> Result<bool, End> {
        let said = tokio::time::timeout(Duration::ZERO, input.fill(&mut self.stream)).await;
        match (said, &mut self.phase) {
            (Ok(Ok(0)), _) => Err(End::Gone(io::ErrorKind::UnexpectedEof.into())),
            (Ok(Err(error)), _) => Err(End::Gone(error)),
            (Ok(Ok(_)), Phase::Replicating(replicating)) => {
                replicating.note_heard();
                Ok(true)
            }
            (Ok(Ok(_)) | Err(_), _) => Ok(false),
        }
    }

    /// The end of a client that follows, or gets a copy, and is not heard of any more.
    pub(super) fn silent(&self) -> End {
        tracing::warn!(pid = self.entry.pid(), "a replica says nothing any more: it is not waited for");
        End::Fatal(SqlError::new(
            SqlState::AdminShutdown,
            "terminating the connection of a replica that has said nothing for wal_sender_timeout",
        ))
    }

    fn end_replicating(&mut self, tag: CommandTag) {
        self.phase = Phase::Ready;
        self.output.command_complete(tag);
        self.after_statement();
        self.ready();
    }

    /// What the client says meanwhile.
    pub(super) fn replicating_message(&mut self, message: Message<'_>) -> Result<(), End> {
        let Phase::Replicating(replicating) = &mut self.phase else { unreachable!("it is asked for then") };
        match Frontend::read(message.kind, message.body).map_err(End::Fatal)? {
            Frontend::CopyData(bytes) => match bytes.split_first() {
                Some((b'r', status)) => {
                    let number = |place: usize| {
                        let bytes = status.get(place..place + 8)?;
                        Some(u64::from_be_bytes(bytes.try_into().ok()?))
                    };
                    let (Some(written), Some(flushed), Some(applied)) = (number(0), number(8), number(16))
                    else {
                        return Err(End::Fatal(violation("a status of a replica is cut off")));
                    };
                    if let Some(following) = &replicating.following {
                        let [written, flushed, applied] = [written, flushed, applied].map(Lsn::new);
                        let believed = following.note_reply(Reply { written, flushed, applied });
                        replicating.confirmed.fetch_max(believed.flushed.get(), Ordering::Relaxed);
                    }
                    // Behind three places and a time: whether it wants an answer at once, as in PostgreSQL.
                    if status.get(32) == Some(&1) {
                        let store = self.shared.engine.store();
                        // Of a replica it is the primary that is meant: the answer comes with one of the next questions.
                        let _ = store.ask_primary();
                        let word = store.word();
                        self.output.copy_data(&keepalive(word));
                    }
                    Ok(())
                }
                // What a standby of PostgreSQL says of its queries: nobody waits for them here.
                Some((b'h', _)) => Ok(()),
                _ => Err(End::Fatal(violation("a replica has sent what is no message of replication"))),
            },
            Frontend::CopyDone | Frontend::CopyFail(_) => {
                if replicating.following.is_some() {
                    self.output.copy_done();
                }
                self.end_replicating(CommandTag::Plain("START_REPLICATION"));
                Ok(())
            }
            Frontend::Terminate => Err(End::Finished),
            Frontend::Flush | Frontend::Sync => Ok(()),
            _ => Err(End::Fatal(violation("a replica takes the log, and asks for nothing else"))),
        }
    }
}

/// Ready at this moment; never if there is none.
pub(super) async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

/// Says where the log ends and, behind what PostgreSQL says, how many microseconds ago the primary's did not end further on.
fn keepalive(word: Word) -> Vec<u8> {
    let mut message = vec![b'k'];
    message.extend_from_slice(&word.end.get().to_be_bytes());
    message.extend_from_slice(&now().to_be_bytes());
    message.push(0);
    // Also while it waited for the client.
    message.extend_from_slice(&micros_since(word.at).to_be_bytes());
    message
}

/// Starts a thread that reads for a connection. It ends when the connection does.
fn spawn(read: impl FnOnce() + Send + 'static) -> Result<(), SqlError> {
    let thread = std::thread::Builder::new().name("coeval-feed".to_owned()).spawn(read);
    thread.map(drop).map_err(|error| {
        SqlError::new(SqlState::OutOfMemory, format!("no thread can be started for a replica: {error}"))
    })
}

/// Sends a copy; the log behind it, unless nobody listens any more.
fn send_copy(copy: BaseCopy, sender: &mpsc::Sender<Piece>) -> Result<Option<Box<LogFeed>>, StoreError> {
    let position = copy.position();
    let mut frame = |frame| sender.blocking_send(Piece::Frames(vec![(frame, position)])).is_ok();
    for name in copy.files() {
        if !Frame::encode_fed(Fed::File(name.clone(), copy.open(name)?), &mut frame)? {
            return Ok(None);
        }
    }
    if !frame(Frame::encode_manifest(copy.manifest())) {
        return Ok(None);
    }
    copy.into_feed().map(|feed| Some(Box::new(feed)))
}

/// Sends the log until nobody listens any more, or `check` fails, which is told up to where the client has the log.
///
/// That something is published waits for what can be read behind it without waiting: mostly the boundary that this has moved. Each
/// commit would wake the connection, and the replica, once more otherwise.
fn send_log(
    mut feed: LogFeed,
    confirmed: &AtomicU64,
    sender: &mpsc::Sender<Piece>,
    word: &dyn Fn() -> Word,
    check: &dyn Fn(u64) -> Result<(), SqlError>,
) -> Result<(), SqlError> {
    let (mut last_keepalive, mut checked) = (Instant::now(), Instant::now());
    let mut known = confirmed.load(Ordering::Relaxed);
    let mut held = Vec::new();
    while !sender.is_closed() {
        let now_confirmed = confirmed.load(Ordering::Relaxed);
        if now_confirmed > known {
            known = now_confirmed;
            feed.confirm(Lsn::new(known));
        }
        if checked.elapsed() >= KEEPALIVE_INTERVAL {
            check(known)?;
            checked = Instant::now();
        }
        match feed.next_piece()? {
            Some(fed) => {
                let (position, is_held) = (feed.position(), matches!(fed, Fed::Published(_)));
                let mut frame = |frame| {
                    held.push((frame, position));
                    is_held || sender.blocking_send(Piece::Frames(std::mem::take(&mut held))).is_ok()
                };
                if !Frame::encode_fed(fed, &mut frame)? {
                    return Ok(());
                }
            }
            None if !held.is_empty() => {
                if sender.blocking_send(Piece::Frames(std::mem::take(&mut held))).is_err() {
                    return Ok(());
                }
            }
            None if last_keepalive.elapsed() >= KEEPALIVE_INTERVAL => {
                if sender.blocking_send(Piece::Keepalive(word())).is_err() {
                    return Ok(());
                }
                last_keepalive = Instant::now();
            }
            None => feed.wait(LOOK_INTERVAL),
        }
    }
    Ok(())
}

/// Why a candidate gets no promise.
fn no_promise(error: CandidacyError) -> SqlError {
    match error {
        CandidacyError::Refused(reason) => {
            SqlError::new(SqlState::ObjectNotInPrerequisiteState, reason.to_string())
        }
        CandidacyError::Store(error) => error.into(),
    }
}

/// The name of a slot, which may stand in double quotes.
fn slot_name(word: &str) -> String {
    word.trim_matches('"').to_owned()
}

/// Reads what stands behind `PROMISE_TIMELINE`. The candidate of a program that tells candidates apart has a `+` before its digits, which
/// older programs read as the sign that it is.
fn promise_asked_for(rest: &str) -> Option<Command> {
    let (timeline, candidate) = rest.trim().split_once(' ')?;
    let timeline = Timeline::new(timeline.parse().ok()?);
    let text = candidate.trim().trim_matches('\'');
    let candidate = u64::from_str_radix(text, 16).ok()?;
    Some(if text.starts_with('+') {
        Command::PromiseTimeline(Promise::of(timeline, candidate), Asker::TellsCandidates)
    } else {
        Command::PromiseTimeline(Promise::of_number(timeline, candidate), Asker::ComparesNumbers)
    })
}

/// Reads a command.
fn parse(text: &str) -> Result<Command, SqlError> {
    let wrong = |what: String| {
        SqlError::new(SqlState::SyntaxError, what).with_hint(
            "A replication connection takes IDENTIFY_SYSTEM, TERM_HISTORY, BASE_BACKUP, START_REPLICATION and PROMISE_TIMELINE; \
             connect without \"replication\" for SQL.",
        )
    };
    let text = text.trim().trim_end_matches(';').trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    match word.to_uppercase().as_str() {
        "IDENTIFY_SYSTEM" => Ok(Command::IdentifySystem),
        "TERM_HISTORY" => Ok(Command::TermHistory),
        "CREATE_REPLICATION_SLOT" => match rest.split_whitespace().collect::<Vec<_>>().as_slice() {
            [name, kind, options @ ..]
                if kind.eq_ignore_ascii_case("PHYSICAL")
                    && options.iter().all(|option| {
                        option.trim_matches(['(', ')']).eq_ignore_ascii_case("RESERVE_WAL")
                    }) =>
            {
                Ok(Command::CreateSlot(slot_name(name)))
            }
            _ => Err(wrong("CREATE_REPLICATION_SLOT takes a name and PHYSICAL".to_owned())),
        },
        "DROP_REPLICATION_SLOT" => match rest.split_whitespace().collect::<Vec<_>>().as_slice() {
            [name] => Ok(Command::DropSlot(slot_name(name))),
            _ => Err(wrong("DROP_REPLICATION_SLOT takes a name".to_owned())),
        },
        "PROMISE_TIMELINE" => promise_asked_for(rest).ok_or_else(|| {
            wrong("PROMISE_TIMELINE takes the number of a timeline and a candidate's".to_owned())
        }),
        "BASE_BACKUP" => Ok(Command::BaseBackup),
        "START_REPLICATION" => {
            let mut words = rest.split_whitespace().peekable();
            let has_slot = words.next_if(|word| word.eq_ignore_ascii_case("SLOT")).is_some();
            let slot = if has_slot { words.next().map(slot_name) } else { None };
            words.next_if(|word| word.eq_ignore_ascii_case("PHYSICAL"));
            let place = words.next().unwrap_or_default();
            let position = Lsn::from_wal_text(place)
                .ok_or_else(|| wrong(format!("\"{place}\" is no place in a log, as 0/1A2B3C is one")))?;
            let term = match words.next() {
                None => None,
                Some(word) if word.eq_ignore_ascii_case("TERM") => {
                    let id = words.next().unwrap_or_default().trim_matches('\'');
                    let id = u64::from_str_radix(id, 16)
                        .map_err(|_| wrong(format!("\"{id}\" is no id of a term")))?;
                    (id > 0).then_some(id)
                }
                Some(word) => return Err(wrong(format!("syntax error at or near \"{word}\""))),
            };
            Ok(Command::StartReplication { slot, position, term })
        }
        _ => Err(wrong(format!("\"{word}\" is no command of replication"))),
    }
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Microseconds since 2000.
fn now() -> u64 {
    let since = since_1970().saturating_sub(Duration::from_secs(EPOCH_SECONDS));
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Microseconds since this moment; all that there are if it never was.
fn micros_since(moment: Option<Instant>) -> u64 {
    let micros = moment.and_then(|moment| u64::try_from(moment.elapsed().as_micros()).ok());
    micros.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_as_postgres_writes_them() {
        assert_eq!(parse("IDENTIFY_SYSTEM;").unwrap(), Command::IdentifySystem);
        assert_eq!(parse("term_history").unwrap(), Command::TermHistory);
        assert_eq!(parse(" base_backup (LABEL 'x')").unwrap(), Command::BaseBackup);
        let start =
            |position, term| Command::StartReplication { slot: None, position: Lsn::new(position), term };
        assert_eq!(
            parse("START_REPLICATION PHYSICAL 1/1A TERM '00ff'").unwrap(),
            start((1 << 32) + 26, Some(255))
        );
        assert_eq!(parse("START_REPLICATION 0/0").unwrap(), start(0, None));
        assert_eq!(parse("START_REPLICATION 0/10 TERM 0").unwrap(), start(16, None));
        let (slot, position) = (Some("west".to_owned()), Lsn::new(16));
        assert_eq!(
            parse("START_REPLICATION SLOT \"west\" PHYSICAL 0/10").unwrap(),
            Command::StartReplication { slot, position, term: None }
        );
        for text in [
            "CREATE_REPLICATION_SLOT west PHYSICAL",
            "create_replication_slot \"west\" physical (RESERVE_WAL)",
        ] {
            assert_eq!(parse(text).unwrap(), Command::CreateSlot("west".to_owned()));
        }
        let promise = Promise::of(Timeline::new(3), 255);
        assert_eq!(
            parse("PROMISE_TIMELINE 3 '+00ff'").unwrap(),
            Command::PromiseTimeline(promise, Asker::TellsCandidates)
        );
        // Fails if every odd candidate is one that has a timeline of its own: an older program's is odd by chance.
        let promise = Promise::of_number(Timeline::new(3), 255);
        assert_eq!(
            parse("PROMISE_TIMELINE 3 '00ff'").unwrap(),
            Command::PromiseTimeline(promise, Asker::ComparesNumbers)
        );
        for wrong in [
            "",
            "SELECT 1",
            "START_REPLICATION",
            "START_REPLICATION SLOT s",
            "CREATE_REPLICATION_SLOT s LOGICAL pgoutput",
            "DROP_REPLICATION_SLOT",
            "PROMISE_TIMELINE 3",
            "PROMISE_TIMELINE x 'ff'",
            "PROMISE_TIMELINE 3 '++ff'",
            "START_REPLICATION 0/0 TERM x",
        ] {
            assert_eq!(parse(wrong).unwrap_err().state, SqlState::SyntaxError, "{wrong}");
        }
    }

    #[test]
    fn a_keepalive_that_has_waited_is_as_old_as_what_it_says() {
        let at = Instant::now().checked_sub(Duration::from_millis(300));
        let message = keepalive(Word { end: Lsn::new(258), at });
        assert_eq!((message.len(), message[0], &message[1..9]), (26, b'k', &258u64.to_be_bytes()[..]));
        let age = |message: &[u8]| u64::from_be_bytes(message[18..].try_into().unwrap());
        assert!((300_000..60_000_000).contains(&age(&message)), "{}", age(&message));
        assert_eq!(age(&keepalive(Word { end: Lsn::START, at: None })), u64::MAX);
    }

    /// Fails when nothing is said while the copy is prepared: the replica gave up after ten minutes, however often it tried.
    #[test]
    fn who_waits_for_a_copy_hears_that_it_is_being_prepared() {
        let (sender, pieces) = mpsc::channel(1);
        let mut copying = Replicating {
            pieces,
            confirmed: Arc::default(),
            following: None,
            heard: Instant::now(),
            held: None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            assert!(matches!(copying.next().await, Some(Piece::Busy)));
            sender.send(Piece::Frames(Vec::new())).await.unwrap();
            assert!(matches!(copying.next().await, Some(Piece::Frames(_))));
            drop(sender);
            assert!(copying.next().await.is_none());
        });
    }

    #[test]
    fn places_are_read_as_they_are_written() {
        for place in [0, 26, u64::from(u32::MAX), 1 << 32, u64::MAX] {
            assert_eq!(Lsn::from_wal_text(&Lsn::new(place).to_wal_text()), Some(Lsn::new(place)));
        }
        assert_eq!(Lsn::from_wal_text("1"), None);
        assert_eq!(Lsn::from_wal_text("100000000/0"), None);
    }
}
