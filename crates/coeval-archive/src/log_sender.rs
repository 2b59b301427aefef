// SPDX-License-Identifier: Apache-2.0
//! [`LogSender`]: cuts what a database's log gives into stretches, and sends them.
//!
//! Reading and sending are apart: what was read and not sent is tried again as it is, under the same name.

use crate::announcement::Announcement;
use crate::archive::{Archive, Put};
use crate::contents::put_term;
use crate::error::ArchiveError;
use crate::found_files::FoundFile;
use crate::history::History;
use crate::log_chunk::ChunkBuilder;
use crate::names::SEGMENTS;
use coeval_store::log::{LogRecord, Lsn};
use coeval_store::{CopiedFile, Fed, LogFeed, LogMark, LogTime, Store, Term};
use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// How often it is looked, while nothing is published, whether the archive is waited for any more.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// See the module.
pub(crate) struct LogSender {
    archive: Archive,
    history: History,
    database: u64,
    feed: LogFeed,
    /// A stretch has about so many bytes of records.
    chunk_bytes: usize,
    /// The stretch that grows, and since when.
    growing: Option<(Stretch, Instant)>,
    /// Those that are to be sent.
    full: VecDeque<Stretch>,
    /// Files that the next record names.
    arriving: Vec<(String, CopiedFile)>,
    /// The terms that the archive knows.
    known_terms: BTreeSet<u64>,
    sent: Sent,
}

/// A stretch with its files.
struct Stretch {
    term: Term,
    chunk: ChunkBuilder,
    /// In the order in which the head names them, with where the records begin that name them.
    files: Vec<(u64, String, CopiedFile)>,
    /// The same with their pieces, once they were read.
    found: Vec<FoundFile>,
    announced: Option<Announcement>,
}

/// How far the log was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    /// Up to here.
    pub(crate) end: Lsn,
    /// The last time in it; zero if nothing with a time was sent.
    pub(crate) time: LogTime,
    pub(crate) chunks: u64,
    pub(crate) bytes: u64,
}

impl LogSender {
    /// Sends what `feed` gives, which is the log of `store`.
    ///
    /// # Panics
    /// If the store has no term: who has a feed of it has made one.
    pub(crate) fn new(archive: Archive, store: &Store, feed: LogFeed, chunk_bytes: usize) -> Self {
        let terms = store.terms();
        let history = History::new(terms.terms().to_vec()).expect("the terms of a store follow one another");
        let sent = Sent { end: feed.position(), ..Sent::default() };
        Self {
            archive,
            history,
            database: terms.database_id(),
            feed,
            chunk_bytes,
            growing: None,
            full: VecDeque::new(),
            arriving: Vec::new(),
            known_terms: BTreeSet::new(),
            sent,
        }
    }

    /// Goes on with the same archive, waited for in another way.
    pub(crate) fn set_archive(&mut self, archive: Archive) {
        self.archive = archive;
    }

    /// Ends it, and has the database let go of what was not sent.
    pub(crate) fn let_go(self) {
        self.feed.let_go();
    }

    pub(crate) fn sent(&self) -> Sent {
        self.sent
    }

    /// Since when something waits in a stretch that is not full.
    pub(crate) fn growing_since(&self) -> Option<Instant> {
        self.growing.as_ref().map(|(_, since)| *since)
    }

    pub(crate) fn has_full(&self) -> bool {
        !self.full.is_empty()
    }

    /// Up to where the log was read.
    fn read_to(&self) -> Lsn {
        let growing = self.growing.as_ref().map(|(stretch, _)| stretch);
        growing.or(self.full.back()).map_or(self.sent.end, |stretch| stretch.chunk.name().end)
    }

    /// Reads what is durable, until a stretch is full or there is no more.
    ///
    /// # Errors
    /// Those of the store: the log may be gone.
    pub(crate) fn read(&mut self) -> Result<(), ArchiveError> {
        while self.full.is_empty() {
            match self.feed.next_piece()? {
                None => return Ok(()),
                Some(Fed::File(name, file)) => self.arriving.push((name, file)),
                Some(Fed::Records(records)) => records.iter().try_for_each(|record| self.push(record))?,
                Some(Fed::Published(_) | Fed::Boundary(_)) => {}
            }
        }
        Ok(())
    }

    /// Reads and sends until the archive has the log up to `end`, which is durable. What is not published yet is waited for, which may be for
    /// as long as a replica is away: `look` is asked meanwhile, and told up to where the archive has the log.
    pub(crate) fn send_to(
        &mut self,
        end: Lsn,
        look: &mut dyn FnMut(Lsn) -> Result<(), ArchiveError>,
    ) -> Result<(), ArchiveError> {
        loop {
            self.send_published(end)?;
            if self.sent.end >= end {
                return Ok(());
            }
            self.archive.check_running()?;
            look(self.sent.end)?;
            self.feed.wait(LOOK_INTERVAL);
        }
    }

    /// The same as far as the log is published by now: what a commit has written that waits for a replica is not given before
    /// the replica has it, which may be never.
    pub(crate) fn send_published(&mut self, end: Lsn) -> Result<(), ArchiveError> {
        while self.sent.end < end {
            self.read()?;
            let is_all = self.full.is_empty();
            if is_all || self.read_to() >= end {
                self.close();
            }
            self.send()?;
            if is_all {
                break;
            }
        }
        Ok(())
    }

    fn push(&mut self, record: &LogRecord) -> Result<(), ArchiveError> {
        self.note_term(record)?;
        let start = record.start();
        let (term, _) = self.history.term_at(start).expect("the log begins with a term");
        if self.growing.as_ref().is_some_and(|(stretch, _)| stretch.term != term) {
            self.close();
        }
        let database = self.database;
        let (stretch, _) = self.growing.get_or_insert_with(|| {
            let chunk = ChunkBuilder::new(database, term.id, start);
            (Stretch { term, chunk, files: Vec::new(), found: Vec::new(), announced: None }, Instant::now())
        });
        for (name, file) in self.arriving.drain(..) {
            stretch.files.push((start.get(), name, file));
        }
        stretch.chunk.push(record)?;
        if stretch.chunk.len() >= self.chunk_bytes {
            self.close();
        }
        Ok(())
    }

    /// A primary writes in one term for as long as it is open. The log of a replica may come to another one.
    fn note_term(&mut self, record: &LogRecord) -> Result<(), ArchiveError> {
        let LogMark::Term(term) = LogMark::of(record)? else { return Ok(()) };
        if term.number > self.history.last().number {
            let mut terms = self.history.terms().to_vec();
            terms.push(term);
            self.history = History::new(terms).expect("the terms of a log follow one another");
        }
        Ok(())
    }

    /// What was read so far is a stretch.
    pub(crate) fn close(&mut self) {
        self.full.extend(self.growing.take().map(|(stretch, _)| stretch));
    }

    /// Sends the stretches that are closed. What could not be sent stays, to be tried again.
    pub(crate) fn send(&mut self) -> Result<(), ArchiveError> {
        while let Some(stretch) = self.full.front_mut() {
            if !self.known_terms.contains(&stretch.term.id) {
                let terms = self.history.terms();
                let place = terms.iter().position(|term| *term == stretch.term).expect("it is one of them");
                put_term(&self.archive, &terms[..=place])?;
                self.known_terms.insert(stretch.term.id);
            }
            let sent = stretch.send(&self.archive)?;
            let head = &stretch.chunk.head;
            self.sent.end = Lsn::new(head.end);
            self.sent.time = self.sent.time.max(head.time());
            self.sent.chunks += 1;
            self.sent.bytes += sent;
            self.feed.confirm(self.sent.end);
            self.full.pop_front();
        }
        Ok(())
    }
}

impl Stretch {
    /// Files first, then the records that name them. Returns how many bytes were new.
    fn send(&mut self, archive: &Archive) -> Result<u64, ArchiveError> {
        let mut sent = 0;
        if !self.files.is_empty() {
            if self.found.is_empty() {
                let files: Vec<_> = self.files.iter().map(|(_, name, file)| (name.as_str(), file)).collect();
                self.found = FoundFile::find(&files, &mut |_| archive.check_running())?;
                let named = self.files.iter().zip(&self.found);
                self.chunk.head.files = named.map(|((at, ..), found)| (*at, found.file.clone())).collect();
            }
            if self.announced.as_ref().is_none_or(|announced| announced.check().is_err()) {
                let pieces = self.found.iter().flat_map(|found| &found.file.pieces);
                self.announced = Some(Announcement::make(archive, pieces, None)?);
            }
            let mut there: BTreeSet<_> = archive.list(SEGMENTS)?.into_iter().collect();
            let files = self.found.iter().zip(self.files.iter().map(|(_, _, file)| file));
            FoundFile::send(archive, &files.collect::<Vec<_>>(), &mut there, &mut |_, new| {
                sent += new;
                Ok(())
            })?;
        }
        let bytes = self.chunk.seal();
        if archive.put_new(&self.chunk.name().name(), bytes.clone())? == Put::New {
            sent += bytes.len() as u64;
        }
        if let Some(announced) = self.announced.take() {
            // What is left of it counts for a day, and harms nobody.
            let _ = announced.withdraw(archive);
        }
        Ok(sent)
    }
}
