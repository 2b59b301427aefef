// SPDX-License-Identifier: Apache-2.0
//! The write-ahead log: what was appended and synced is found again, in order, whole.
//!
//! # Purpose
//! The commit pipeline appends one record per commit batch and syncs it before it acknowledges. After a crash
//! the records behind the last checkpoint are replayed. The log does not know what a payload means.
//!
//! # Terms
//! - An [`Lsn`] is a byte position in the whole log, over all segments, not counting segment headers. A record
//!   is named by the LSN *behind* it: it is durable when [`LogHandle::durable_lsn`] has reached that LSN, and a
//!   checkpoint that contains it passes the same LSN to [`Log::open`].
//! - A *segment* is a file `<first LSN, 20 digits>.log`. All but the last are complete and durable.
//! - A record header *attests* the log up to its `synced` field: so far the log was durable when the header was
//!   written.
//!
//! # Bytes (little-endian; `docs/formats.md` has an example)
//!
//! | segment header | bytes | |
//! |---|---|---|
//! | magic | 0..8 | `COEVALOG` |
//! | version | 8..12 | 1 |
//! | checksum | 12..16 | CRC32C of bytes 0..12 and 16..24 |
//! | first LSN | 16..24 | the number in the file name |
//!
//! | record | bytes | |
//! |---|---|---|
//! | length | 0..4 | of the payload, 1 to [`PAYLOAD_BYTES_MAX`] |
//! | header checksum | 4..8 | CRC32C of the record's own LSN (8 bytes) and bytes 0..4, 8..20 |
//! | synced | 8..16 | the attested LSN, at most the record's own |
//! | payload checksum | 16..20 | CRC32C of the payload |
//! | payload | 20.. | |
//!
//! Behind the last record of the last segment come zeros (room made ahead, so that a sync does not also have to
//! write the file's length) or the end of the file.
//!
//! # Validation
//! A record is valid when its length is in range and inside the file, `synced` is not above its own LSN, and
//! both checksums fit. The header has a checksum of its own so that it can be trusted when its payload cannot;
//! the LSN goes into it so that bytes of another place, or of an earlier use of the disk block, never fit.
//!
//! # Durability order
//! 1. Records are written one behind the other; a record's `synced` is the durable LSN at that moment.
//! 2. The durable LSN advances only when a sync that began after the write has returned without error. The last bytes of a
//!    large record are written while others append behind it; a sync meanwhile counts up to that record.
//! 3. A segment ends: the header of the next one is written to `<name>.tmp` and synced; the segment is cut to its length and
//!    synced; only then the next one is renamed, and the directory synced. Only then is a record written to it.
//! 4. Room comes first: zeros where the record is going to be, or the next segment but for its name. On a full disk that
//!    fails, and the log is as it was. A write of a record or a sync fails: the log stops. Every later append or sync
//!    returns the first error, because a sync that succeeds after one that failed proves nothing about the bytes in
//!    between.
//! 5. Open: the tail is cut off durably before anything is appended (a record of the lost tail must never be
//!    found behind a new one), the part nobody attested is written again and synced (after a failed sync the page
//!    cache may show bytes that the disk never got), and the directory is synced (the last segment's name may not
//!    be durable yet).
//!
//! # Torn tail or damage?
//! A crash may lose, keep, tear and reorder everything that was not synced, so one bad record followed by good
//! ones can be an honest crash. Let D be the first place without a valid record in the last segment.
//!
//! **Rule.** D is *damage* if some later valid header attests more than D. Otherwise D is a *torn tail*.
//!
//! **No false alarm:** a header attests at most the LSN up to which the log was durable, and what was durable
//! survives a crash; so after a crash every attested LSN is at most D. **No silent loss of what is attested:**
//! attested LSNs are record borders, so an attested LSN above D covers the whole record at D; it was durable and
//! is not valid now. In earlier segments every byte was durable before the next one got its name (3.), so there
//! any bad place is damage; the same holds for every segment header.
//!
//! **What this cannot see:** damage in records that no later record attests looks like a torn tail: in the last synced
//! stretch before a crash. Before a clean close, and when nobody commits, an *inert* record is appended, which nobody would
//! miss and which attests all before it; and the end of the log is noted in a file of its own (`log/end_note.rs`), which counts
//! as a header that attests it: so the loss of the last segment, or of its last records, is damage too.
//!
//! # Recovery cases
//! Where the walk through a segment stops, one row of `RECOVERY_CASES` (`log/recovery.rs`) decides. The segments are those that
//! are there, and the one that the note of the end names, if that lies behind the checkpoint's LSN.
//!
//! | next segment | bytes from there on | attested later | checkpoint's LSN reached | decision |
//! |---|---|---|---|---|
//! | starts here | any | any | any | go on there |
//! | starts elsewhere | none or zeros | any | any | a segment is missing |
//! | starts elsewhere | others | any | any | damage |
//! | none | any | yes, or noted | any | damage |
//! | none | any | no | no | damage: the log ends too early |
//! | none | none or zeros | no | yes | the end |
//! | none | others | no | yes | torn tail, cut off |
//!
//! # Cost
//! An append is one copy into a buffer that is used again and one write call; every [`LogOptions::extend_bytes`]
//! one more write of zeros. A sync does not hold up appends, and neither do the bytes of a large record. Replay reads one segment at a time.
//!
//! # Non-goals
//! No encryption, compression or defence against forged files (a CRC is no signature). No repair: damage stops
//! the open. No archive: [`LogHandle::remove_before`] deletes. One case alone takes durable records away from the end: a log that
//! has parted from another one (`log/cutting.rs`).
//!
//! Start reading at: `log/format.rs`, then `log/recovery.rs`, `log/walk.rs`, `log/appender.rs`, `log/segment.rs`.

mod appender;
mod cutting;
mod end_note;
mod error;
mod format;
mod handle;
mod reader;
mod recovery;
mod segment;
mod unfilled;
mod walk;

pub use appender::{Log, LogOptions};
pub(crate) use cutting::{copy_between, cut};
pub use error::{Damage, LogError, OpenError};
pub use format::{Lsn, PAYLOAD_BYTES_MAX};
pub(crate) use format::{PayloadTail, segment_path};
pub use handle::LogHandle;
pub use reader::{LogReader, LogRecord};
pub(crate) use unfilled::Unfilled;
pub use walk::{ChecksumPolicy, LogSummary, Replay, Tail, verify};
pub(crate) use walk::{Found, LogFiles, LookAt, find_segments, place_in_log, read, walk};

#[cfg(test)]
mod tests;
