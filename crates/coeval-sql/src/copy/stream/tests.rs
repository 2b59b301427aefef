// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::cancel::CancelHandle;
use crate::error::SqlState;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Instant;

/// Longer than what a pipe holds, which is 64 KiB.
const MUCH: usize = 1_000_000;

/// Long enough for the other side to wait.
const PAUSE: Duration = Duration::from_millis(50);

fn pipe_in(folder: &Path) -> PathBuf {
    let path = folder.join("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

fn bytes(length: usize) -> Vec<u8> {
    (0..=250).cycle().take(length).collect()
}

fn read_to_end(stream: &mut Stream<'_>) -> Result<Vec<u8>, SqlError> {
    let mut all = Vec::new();
    let mut piece = [0; 10_000];
    loop {
        match stream.read(&mut piece)? {
            0 => return Ok(all),
            length => all.extend_from_slice(&piece[..length]),
        }
    }
}

#[test]
fn what_comes_through_a_pipe_is_whole_though_its_writer_comes_late_and_pauses() {
    let folder = tempfile::tempdir().unwrap();
    let (path, sent) = (pipe_in(folder.path()), bytes(MUCH));
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(PAUSE);
            let mut writer = OpenOptions::new().write(true).open(&path).unwrap();
            for part in sent.chunks(MUCH / 2) {
                thread::sleep(PAUSE);
                writer.write_all(part).unwrap();
            }
        });
        assert!(read_to_end(&mut Stream::to_read(&path).unwrap()).unwrap() == sent);
    });
}

#[test]
fn what_goes_into_a_pipe_is_whole_though_its_reader_comes_late_and_pauses() {
    let folder = tempfile::tempdir().unwrap();
    let (path, sent) = (pipe_in(folder.path()), bytes(MUCH));
    thread::scope(|scope| {
        let reading = scope.spawn(|| {
            thread::sleep(PAUSE);
            let mut reader = File::open(&path).unwrap();
            thread::sleep(PAUSE);
            let mut all = Vec::new();
            reader.read_to_end(&mut all).unwrap();
            all
        });
        Stream::to_write(&path).unwrap().write_all(&sent).unwrap();
        assert!(reading.join().unwrap() == sent);
    });
}

/// What a statement ends with that is cancelled while it waits.
fn cancelled(work: impl FnOnce() -> Result<(), SqlError> + Send) -> SqlState {
    let handle = CancelHandle::new();
    let (begin, begun) = channel();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let _running = handle.begin();
            begin.send(()).unwrap();
            work()
        });
        begun.recv().unwrap();
        thread::sleep(PAUSE);
        assert!(!waiting.is_finished());
        let asked = Instant::now();
        handle.cancel();
        let outcome = waiting.join().unwrap();
        assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
        outcome.unwrap_err().state
    })
}

/// Each of these waited for ever.
#[test]
fn who_waits_for_the_other_end_of_a_pipe_is_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let path = pipe_in(folder.path());
    let read = || read_to_end(&mut Stream::to_read(&path)?).map(drop);
    let write = || Stream::to_write(&path)?.write_all(&bytes(MUCH));
    assert_eq!(cancelled(read), SqlState::QueryCanceled, "nobody writes it");
    assert_eq!(cancelled(write), SqlState::QueryCanceled, "nobody reads it");
    // Both ends, so that somebody is there who does nothing.
    let _silent = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    assert_eq!(cancelled(read), SqlState::QueryCanceled, "who writes it has nothing to say");
    assert_eq!(cancelled(write), SqlState::QueryCanceled, "who reads it does not");
}

#[test]
fn a_device_is_read_and_written_and_what_is_no_pipe_is_not_waited_for() {
    assert_eq!(Stream::to_read(Path::new("/dev/null")).unwrap().read(&mut [0]), Ok(0));
    assert_eq!(Stream::to_write(Path::new("/dev/null")).unwrap().write_all(b"nothing"), Ok(()));
    let full = Stream::to_write(Path::new("/dev/full")).unwrap().write_all(b"x").unwrap_err();
    assert_eq!(full.state, SqlState::DiskFull);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    assert_eq!(Stream::to_write(&path).err().unwrap().state, SqlState::IoError);
}

#[test]
fn a_pipe_is_not_read_in_any_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = pipe_in(folder.path());
    let refused = Stream::to_read(&path).unwrap().into_plain().unwrap_err();
    assert_eq!(refused.state, SqlState::WrongObjectType);
    std::fs::write(folder.path().join("plain"), b"x").unwrap();
    assert!(Stream::to_read(&folder.path().join("plain")).unwrap().into_plain().is_ok());
}
