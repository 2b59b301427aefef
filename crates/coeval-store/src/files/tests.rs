// SPDX-License-Identifier: Apache-2.0
//! Tests of the interface: the same expectations for the real disk and the simulated one, and the lock.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::files::{
    DiskFiles, Fault, FileError, FileSystem, FileWriter, LOCK_FILE_NAME, OpenMode, SimulatedFiles,
    put_in_place, replace_file, write_aside,
};

/// Runs the expectation on the real disk and on the simulated one.
fn on_both(expect: impl Fn(&dyn FileSystem, &Path)) {
    let directory = tempfile::tempdir().unwrap();
    expect(&DiskFiles, &directory.path().join("a/b"));
    expect(&SimulatedFiles::new(1), Path::new("/a/b"));
}

#[test]
fn files_are_made_written_read_renamed_and_removed() {
    on_both(|files, dir| {
        files.create_dir_all(dir).unwrap();
        files.create_dir_all(dir).unwrap();
        assert!(files.exists(dir).unwrap());
        let path = dir.join("one");
        let file = files.open(&path, OpenMode::Create).unwrap();
        assert!(file.is_empty().unwrap());
        file.write_all_at(4, b"data").unwrap();
        file.write_all_at(0, b"some").unwrap();
        file.sync_data().unwrap();
        assert_eq!((file.len().unwrap(), files.len(&path).unwrap()), (8, 8));
        assert_eq!(files.read(&path).unwrap(), b"somedata");
        file.set_len(10).unwrap();
        file.set_len(9).unwrap();
        file.sync_all().unwrap();
        let opened = files.open_to_read(&path).unwrap();
        files.rename(&path, &dir.join("two")).unwrap();
        files.sync_dir(dir).unwrap();
        assert_eq!(files.list(dir).unwrap(), ["two"]);
        assert!(!files.exists(&path).unwrap());
        files.remove(&dir.join("two")).unwrap();
        assert_eq!(files.list(dir).unwrap(), [""; 0]);
        let mut read = [0; 6];
        opened.read_exact_at(3, &mut read).expect("an open file outlives its name");
        assert_eq!((&read, opened.len().unwrap()), (b"edata\0", 9));
        let past = opened.read_exact_at(4, &mut read).expect_err("the file ends before");
        assert!(past.is_past_the_end() && past.to_string().contains("at offset 4"), "{past}");
    });
}

#[test]
fn opening_to_create_empties_and_opening_what_exists_does_not() {
    on_both(|files, dir| {
        files.create_dir_all(dir).unwrap();
        let path = dir.join("file");
        files.open(&path, OpenMode::Create).unwrap().write_all_at(0, b"old").unwrap();
        files.open(&path, OpenMode::Existing).unwrap().write_all_at(1, b"n").unwrap();
        assert_eq!(files.read(&path).unwrap(), b"ond");
        files.open(&path, OpenMode::Create).unwrap();
        assert_eq!(files.read(&path).unwrap(), b"");
        assert!(files.open_to_read(&path).unwrap().is_empty().unwrap());
    });
}

#[test]
fn what_is_not_there_is_an_error_that_names_it() {
    on_both(|files, dir| {
        files.create_dir_all(dir).unwrap();
        let path = dir.join("none");
        let errors = [
            files.open(&path, OpenMode::Existing).err(),
            files.open(&dir.join("none/none"), OpenMode::Create).err(),
            files.read(&path).err(),
            files.open_to_read(&path).err(),
            files.len(&path).err(),
            files.remove(&path).err(),
            files.rename(&path, &dir.join("other")).err(),
            files.list(&path).err(),
        ];
        for error in errors {
            let error = error.expect("there is no such file");
            assert!(error.is_not_found(), "{error}");
            assert!(error.to_string().contains("none"), "{error}");
            assert!(error.path().starts_with(dir));
            assert!(!error.is_disk_full());
        }
    });
}

#[test]
fn a_written_file_is_replaced_whole() {
    on_both(|files, dir| {
        files.create_dir_all(dir).unwrap();
        let path = dir.join("manifest");
        replace_file(files, &path, b"first").unwrap();
        replace_file(files, &path, b"second").unwrap();
        assert_eq!(files.read(&path).unwrap(), b"second");
        assert_eq!(files.list(dir).unwrap(), ["manifest"]);
    });
}

#[test]
fn a_file_writer_keeps_order_and_position_for_pieces_of_any_size() {
    on_both(|files, dir| {
        files.create_dir_all(dir).unwrap();
        let path = dir.join("chunk");
        let mut writer = FileWriter::create(files, &path).unwrap();
        let mut expected = Vec::new();
        for (index, size) in [10, 300_000, 7, 262_144, 262_143, 2, 0, 100_000].into_iter().enumerate() {
            let piece = vec![index as u8 + 1; size];
            writer.write_all(&piece).unwrap();
            expected.extend_from_slice(&piece);
            assert_eq!(writer.position(), expected.len() as u64);
        }
        assert!(writer.failure().is_none());
        assert_eq!(writer.finish().unwrap(), expected.len() as u64);
        assert!(files.read(&path).unwrap() == expected);
    });
}

#[test]
fn a_second_lock_is_refused_until_the_first_is_dropped() {
    on_both(|files, dir| {
        files.create_dir_all(dir).unwrap();
        let lock = files.lock(dir).unwrap();
        let error = files.lock(dir).unwrap_err();
        let FileError::DirectoryInUse { path, holder } = &error else { panic!("{error}") };
        assert_eq!(path, dir);
        assert_eq!(holder.pid, Some(std::process::id()));
        assert!(
            error.to_string().contains(&format!("is in use by process {} (", std::process::id())),
            "{error}"
        );
        drop(lock);
        files.lock(dir).unwrap();
    });
}

const HELD_DIRECTORY: &str = "COEVAL_TEST_HELD_DIRECTORY";

/// Not a test of its own: the process that the next one starts runs only this, and holds a lock until its input
/// ends.
#[test]
fn holder_process_of_the_lock_test() {
    if let Some(dir) = std::env::var_os(HELD_DIRECTORY) {
        let _lock = DiskFiles.lock(Path::new(&dir)).unwrap();
        println!("\nheld");
        let _ = std::io::stdin().read_line(&mut String::new());
    }
}

#[test]
fn a_second_process_learns_who_holds_the_directory() {
    use std::io::BufRead;
    let directory = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["holder_process_of_the_lock_test", "--nocapture"])
        .env(HELD_DIRECTORY, directory.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut lines = output.lines();
    assert!(lines.by_ref().any(|line| line.unwrap() == "held"), "the child took the lock");
    let error = DiskFiles.lock(directory.path()).unwrap_err();
    let FileError::DirectoryInUse { holder, .. } = &error else { panic!("{error}") };
    assert_eq!(holder.pid, Some(child.id()));
    assert!(holder.command.contains("holder_process_of_the_lock_test"), "{holder}");

    // Killed, so nothing of its own gives the lock back.
    child.kill().unwrap();
    child.wait().unwrap();
    DiskFiles.lock(directory.path()).unwrap();
    assert!(DiskFiles.exists(&directory.path().join(LOCK_FILE_NAME)).unwrap());
}

#[test]
fn a_file_that_cannot_be_written_aside_leaves_nothing_and_the_old_contents() {
    for calls in 0.. {
        let files = SimulatedFiles::new(calls);
        let dir = Path::new("/d");
        files.create_dir_all(dir).unwrap();
        replace_file(&files, &dir.join("f"), b"old").unwrap();
        files.fail_after(calls, Fault::DiskFull);
        let outcome = write_aside(&files, &dir.join("f"), b"new");
        assert_eq!(files.read(&dir.join("f")).unwrap(), b"old");
        if outcome.is_ok() {
            assert!(calls > 2);
            put_in_place(&files, &dir.join("f")).unwrap();
            assert_eq!(files.crash().read(&dir.join("f")).unwrap(), b"new");
            break;
        }
        assert_eq!(files.list(dir).unwrap(), ["f"]);
    }
}

/// The permissions of what is at a path.
fn mode_of(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn nobody_else_can_read_a_directory_or_a_file_unless_the_directory_lets_its_group_in() {
    let around = tempfile::tempdir().unwrap();
    let dir = around.path().join("data");
    DiskFiles.create_dir_all(&dir.join("log")).unwrap();
    let _lock = DiskFiles.lock(&dir).unwrap();
    let made = |name: &str| {
        let path = dir.join(name);
        DiskFiles.open(&path, OpenMode::Create).unwrap();
        mode_of(&path)
    };
    assert_eq!((mode_of(&dir), mode_of(&dir.join("log"))), (0o700, 0o700));
    assert_eq!((mode_of(&dir.join(LOCK_FILE_NAME)), made("one")), (0o600, 0o600));
    // A directory that somebody made for everybody gives nobody a file of ours.
    for (directory, file) in [(0o750, 0o640), (0o755, 0o600), (0o777, 0o600)] {
        std::fs::set_permissions(&dir, Permissions::from_mode(directory)).unwrap();
        assert_eq!(made(&format!("in-{directory:o}")), file, "in a directory of mode {directory:o}");
    }
}
