// SPDX-License-Identifier: Apache-2.0

use super::*;

#[test]
fn a_file_that_could_not_be_written_to_its_end_leaves_nothing_and_the_old_one_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.csv");
    let broken = |out: &mut Output<'_>| -> Result<(), SqlError> {
        out.buffer().extend_from_slice(&vec![b'x'; PIECE_BYTES]);
        out.flush_if_full()?;
        Err(SqlError::syntax("the rows have an end"))
    };
    write_pieces(&path, broken).unwrap_err();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);

    let text = |text: &'static str| {
        move |out: &mut Output<'_>| -> Result<(), SqlError> {
            out.buffer().extend_from_slice(text.as_bytes());
            Ok(())
        }
    };
    write_pieces(&path, text("old")).unwrap();
    write_pieces(&path, broken).unwrap_err();
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);

    write_pieces(&path, text("new")).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"new");
}

#[test]
fn a_folder_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let error = write_pieces(folder.path(), |_| Ok(())).unwrap_err();
    assert_eq!(error.state, SqlState::WrongObjectType);
}

#[test]
fn a_file_is_within_a_directory_whatever_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let (inner, outer) = (folder.path().join("inner"), folder.path().join("outer"));
    std::fs::create_dir_all(inner.join("deeper")).unwrap();
    std::fs::create_dir(&outer).unwrap();
    std::os::unix::fs::symlink(&inner, outer.join("link")).unwrap();
    for within in ["inner/new", "inner/deeper/new", "outer/../inner/new", "outer/link/new", "outer/link"] {
        assert!(is_within(&folder.path().join(within), &inner), "{within}");
    }
    for beside in ["outer/new", "inner.csv", "inner/../outer/new", "nowhere/new"] {
        assert!(!is_within(&folder.path().join(beside), &inner), "{beside}");
    }
}
