// SPDX-License-Identifier: Apache-2.0
//! Files are cut into pieces in their order, and what is sent is what was named.

use super::faulty::Faulty;
use super::primary::{Primary, archive_in};
use crate::error::ArchiveError;
use crate::found_files::FoundFile;
use crate::names::SEGMENTS;
use crate::pieces::{PIECE_BYTES, Piece};
use coeval_store::{BaseCopy, CopiedFile};
use std::collections::BTreeSet;

/// A checkpoint with several files, and these.
fn files() -> (Primary, BaseCopy, Vec<(String, CopiedFile)>) {
    let mut primary = Primary::new(5);
    (0..5).for_each(|number| primary.add_table(number));
    primary.store().checkpoint().unwrap();
    let copy = primary.store().base_copy().unwrap();
    let open = |name: &String| (name.clone(), copy.open(name).unwrap());
    let files: Vec<_> = copy.files().iter().map(open).collect();
    assert!(files.len() >= 5);
    (primary, copy, files)
}

fn find(files: &[(String, CopiedFile)], piece_bytes: usize) -> Vec<FoundFile> {
    let named: Vec<_> = files.iter().map(|(name, file)| (name.as_str(), file)).collect();
    let mut bytes = 0;
    let found = FoundFile::find_by(&named, piece_bytes, &mut |read| {
        bytes += read;
        Ok(())
    });
    assert_eq!(bytes, files.iter().map(|(_, file)| file.length()).sum::<u64>());
    found.unwrap()
}

/// Fails if the pieces are in the order in which they were read, or one is read from the beginning of its file.
#[test]
fn pieces_are_those_of_their_file_in_its_order() {
    let (_primary, _copy, files) = files();
    for piece_bytes in [100, 1000, PIECE_BYTES] {
        for (found, (name, file)) in find(&files, piece_bytes).iter().zip(&files) {
            let mut contents = vec![0; usize::try_from(file.length()).unwrap()];
            file.read_at(0, &mut contents).unwrap();
            let expected: Vec<_> = contents.chunks(piece_bytes).map(Piece::of).collect();
            assert!(found.file.name == *name && found.file.pieces == expected, "{name}");
        }
    }
}

/// Fails if what is sent is not looked at: a fault of the disk would be in the archive under a name of sound bytes, and be taken for
/// these by each backup that comes.
#[test]
fn what_is_read_otherwise_the_second_time_is_not_sent() {
    let (_primary, _copy, files) = files();
    let archive = archive_in(&Faulty::in_memory(5, 0));
    let mut found = find(&files, 100);
    let send = |found: &[FoundFile]| {
        let files: Vec<_> = found.iter().zip(files.iter().map(|(_, file)| file)).collect();
        let (mut there, mut bytes, mut sent) = (BTreeSet::new(), 0, 0);
        let outcome = FoundFile::send(&archive, &files, &mut there, &mut |more, new| {
            bytes += more;
            sent += new;
            Ok(())
        });
        outcome.map(|()| (bytes, sent))
    };
    // Another file may have the same piece, and is not damaged.
    let all: Vec<_> = found.iter().flat_map(|found| found.file.pieces.iter().map(Piece::listed)).collect();
    let is_one = |piece: &Piece| all.iter().filter(|listed| **listed == piece.listed()).count() == 1;
    let at = found[2].file.pieces.iter().position(is_one).unwrap();
    let damaged = found[2].file.pieces[at].listed();
    found[2].checks[at] ^= 1;
    let refused = send(&found).unwrap_err();
    assert!(matches!(refused, ArchiveError::Damaged { .. }), "{refused}");
    assert!(!archive.list(SEGMENTS).unwrap().contains(&damaged));

    found[2].checks[at] ^= 1;
    let bytes: u64 = files.iter().map(|(_, file)| file.length()).sum();
    let (there, sent) = send(&found).unwrap();
    assert!(there == bytes && sent > 0 && sent <= bytes, "{there} of {bytes}, {sent} sent");
    let listed: BTreeSet<_> = archive.list(SEGMENTS).unwrap().into_iter().collect();
    assert!(found.iter().all(|found| found.is_in(&listed)));
    assert_eq!(send(&found).unwrap(), (bytes, 0), "it was all there");
}
