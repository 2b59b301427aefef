// SPDX-License-Identifier: Apache-2.0
//! Files that are written, read, given up, and that could not be written.

use super::*;

fn write(file: &Arc<dyn SpillFile>, pieces: &[&[u8]]) -> Result<(), DataFusionError> {
    let mut writer = file.open_writer()?;
    for piece in pieces {
        writer.write_all(piece)?;
        writer.flush()?;
    }
    writer.finish()
}

fn read(file: &Arc<dyn SpillFile>) -> Result<Vec<u8>, SqlError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let pieces = runtime.block_on(file.read_stream()?.try_collect::<Vec<_>>())?;
    Ok(pieces.concat())
}

fn files(parent: &Path) -> usize {
    let inside = std::fs::read_dir(parent).unwrap().map(|entry| entry.unwrap().path());
    inside.map(|directory| std::fs::read_dir(directory).unwrap().count()).sum()
}

fn open_files(below: &Path) -> usize {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    targets.filter(|target| target.starts_with(below)).count()
}

#[test]
fn what_is_written_is_read_and_no_file_stays_open_or_behind() {
    let parent = tempfile::tempdir().unwrap();
    let directory = SpillDirectory::new(Some(parent.path().join("spill")), u64::MAX);
    let made: Vec<_> = (0..50).map(|_| directory.create_temp_file("rows").unwrap()).collect();
    let large = vec![7; 3 * READ_BYTES];
    for file in &made {
        write(file, &[b"some", &large, b"rows"]).unwrap();
    }
    assert_eq!(open_files(parent.path()), 0);
    let expected = [b"some", &large[..], b"rows"].concat();
    assert!(made.iter().all(|file| read(file).unwrap() == expected));
    assert_eq!((open_files(parent.path()), files(&parent.path().join("spill"))), (0, 50));
    assert_eq!(directory.made().unwrap().bytes.load(Ordering::Relaxed), 50 * expected.len() as u64);
    drop(made);
    assert_eq!(files(&parent.path().join("spill")), 0);
    assert_eq!(directory.made().unwrap().bytes.load(Ordering::Relaxed), 0);
    drop(directory);
    assert_eq!(std::fs::read_dir(parent.path().join("spill")).unwrap().count(), 0);
}

#[test]
fn what_could_not_be_written_is_an_error_of_who_ends_the_file_and_of_who_reads_it() {
    let parent = tempfile::tempdir().unwrap();
    let directory = SpillDirectory::new(Some(parent.path().to_path_buf()), 100);
    let first = directory.create_temp_file("rows").unwrap();
    write(&first, &[&[1; 60]]).unwrap();
    let second = directory.create_temp_file("rows").unwrap();
    let ended = SqlError::from(write(&second, &[&[2; 30], &[2; 30], &[2; 1]]).unwrap_err());
    assert_eq!(ended.state, SqlState::ConfigurationLimitExceeded);
    assert_eq!(read(&second).unwrap_err(), ended);
    assert_eq!(read(&first).unwrap(), [1; 60], "the others have what they have");
    drop(second);
    let third = directory.create_temp_file("rows").unwrap();
    write(&third, &[&[3; 40]]).unwrap();
    assert_eq!(read(&third).unwrap(), [3; 40], "what was given up is there for others");
}

#[test]
fn a_directory_that_is_gone_is_an_error() {
    let parent = tempfile::tempdir().unwrap();
    let directory = SpillDirectory::new(Some(parent.path().to_path_buf()), u64::MAX);
    let file = directory.create_temp_file("rows").unwrap();
    write(&file, &[b"rows"]).unwrap();
    std::fs::remove_dir_all(directory.made().unwrap().directory.path()).unwrap();
    assert_eq!(read(&file).unwrap_err().state, SqlState::IoError);
    let Err(error) = directory.create_temp_file("rows") else { panic!("made in no directory") };
    assert_eq!(SqlError::from(error).state, SqlState::IoError);
}
