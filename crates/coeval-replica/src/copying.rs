// SPDX-License-Identifier: Apache-2.0
//! The base copy over the wire.

use crate::address::PrimaryAddress;
use crate::error::ReplicaError;
use crate::link::Link;
use coeval_store::files::DiskFiles;
use coeval_store::{CopyWriter, FileWriter, Frame};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long the primary may say nothing. While it makes the checkpoint that the copy begins with it says so every two seconds, unless its
/// program is older.
const PATIENCE: Duration = Duration::from_secs(600);

/// Makes a copy of the primary's database in a directory that is empty, not there, or has a copy that did not end. `progress`
/// hears how many bytes have come. Returns the connection: whoever follows over it finds the log that belongs to the copy.
///
/// # Errors
/// [`ReplicaError`]. The directory then has an unfinished copy, which the next try begins anew.
pub fn copy_database(
    from: &PrimaryAddress,
    dir: &Path,
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
    link.set_patience(PATIENCE)?;
    let mut writer = Some(writer);
    let mut file: Option<FileWriter> = None;
    let mut bytes = 0;
    let out_of_place = || ReplicaError::Protocol("pieces of a copy out of their order".to_owned());
    loop {
        let silent = || ReplicaError::Protocol("the primary has stopped sending".to_owned());
        let message = link.next()?.ok_or_else(silent)?;
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
            b'Z' if writer.is_none() => return Ok(link),
            b'H' | b'c' | b'C' | b'N' | b'S' => {}
            _ => return Err(out_of_place()),
        }
    }
}
