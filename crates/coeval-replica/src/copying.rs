// SPDX-License-Identifier: Apache-2.0
//! The base copy over the wire.

use crate::address::PrimaryAddress;
use crate::error::ReplicaError;
use crate::link::{Link, Message, OPENING_TIME_MAX};
use coeval_store::files::DiskFiles;
use coeval_store::{CopyWriter, FileWriter, Frame};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long the primary may say nothing. While it makes the checkpoint that the copy begins with it says so every two seconds, unless its
/// program is older.
const PATIENCE: Duration = Duration::from_secs(600);

/// How long to wait for messages before looking whether the copy is still wanted.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Makes a copy of the primary's database in a directory that is empty, not there, or has a copy that did not end. `progress`
/// hears how many bytes have come. Returns the connection: whoever follows over it finds the log that belongs to the copy.
///
/// # Errors
/// [`ReplicaError`]; [`ReplicaError::Stopped`] soon after `stop` was set. The directory then has an unfinished copy, which the next try begins anew.
pub fn copy_database(
    from: &PrimaryAddress,
    dir: &Path,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u64),
) -> Result<Link, ReplicaError> {
    let mut link = Link::open(from)?;
    let writer = CopyWriter::begin(Arc::new(DiskFiles), dir)?;
    if let Some(slot) = &from.slot {
        // Before the copy: the log behind that is kept from its first moment on.
        link.make_slot(slot)?;
    }
    writer.note_timeline(link.identify_source()?.timeline)?;
    link.command("BASE_BACKUP")?;
    link.set_patience(LOOK_INTERVAL)?;
    let mut writer = Some(writer);
    let mut file: Option<FileWriter> = None;
    let mut bytes = 0;
    let out_of_place = || ReplicaError::Protocol("pieces of a copy out of their order".to_owned());
    loop {
        let message = next_message(&mut link, stop)?;
        match message.kind {
            b'd' => {
                bytes += message.body.len() as u64;
                progress(bytes);
                match Frame::decode(&message.body)? {
                    Frame::File { name, .. } => {
                        file = Some(writer.as_ref().ok_or_else(out_of_place)?.file(name)?);
                    }
                    Frame::Bytes(bytes) => file.as_mut().ok_or_else(out_of_place)?.write(bytes)?,
                    Frame::FileEnd => file.take().ok_or_else(out_of_place)?.finish()?,
                    Frame::Manifest(manifest) => {
                        writer
                            .take()
                            .filter(|_| file.is_none())
                            .ok_or_else(out_of_place)?
                            .finish(manifest)?;
                    }
                    Frame::Records(_) | Frame::Published(_) | Frame::Boundary(_) => {
                        return Err(out_of_place());
                    }
                }
            }
            b'Z' if writer.is_none() => {
                link.set_patience(OPENING_TIME_MAX)?;
                return Ok(link);
            }
            b'H' | b'c' | b'C' | b'N' | b'S' => {}
            _ => return Err(out_of_place()),
        }
    }
}

/// The next message, which has to come.
///
/// # Errors
/// See [`PATIENCE`]; [`ReplicaError::Stopped`].
fn next_message(link: &mut Link, stop: &AtomicBool) -> Result<Message, ReplicaError> {
    let begun = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        if let Some(message) = link.next()? {
            return Ok(message);
        }
        if begun.elapsed() >= PATIENCE {
            return Err(ReplicaError::Protocol("the primary has stopped sending".to_owned()));
        }
    }
    Err(ReplicaError::Stopped)
}
