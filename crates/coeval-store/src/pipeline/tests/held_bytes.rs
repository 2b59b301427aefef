// SPDX-License-Identifier: Apache-2.0
//! Commits beside a large one whose bytes take long to be written.

use super::{PATIENCE, insert, make_table};
use crate::files::{DirectoryLock, File, FileError, FileSystem, OpenMode, ReadFile, SimulatedFiles};
use crate::log::LogOptions;
use crate::options::{Durability, Sizes, StoreOptions};
use crate::store::Store;
use parking_lot::{Condvar, Mutex};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

/// Writes of so many bytes are held: more than the log writes zeros at a time.
const LARGE: usize = (1 << 20) + 1;

/// Whether large writes are held, and how many are.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Gate {
    fn shut(&self) {
        self.state.lock().0 = true;
    }

    fn open(&self) {
        self.state.lock().0 = false;
        self.changed.notify_all();
    }

    fn wait_for_a_write(&self) {
        let mut state = self.state.lock();
        let waited = self.changed.wait_while_for(&mut state, |(_, held)| *held == 0, PATIENCE);
        assert!(!waited.timed_out(), "a large write comes");
    }

    fn pass(&self) {
        let mut state = self.state.lock();
        state.1 += 1;
        self.changed.notify_all();
        self.changed.wait_while(&mut state, |(is_shut, _)| *is_shut);
        state.1 -= 1;
    }
}

/// Opens the gate, whatever becomes of the test: the threads that wait for it keep a scope from ending.
struct Opening<'a>(&'a Gate);

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// A disk on which large writes wait for a gate.
#[derive(Clone, Debug)]
struct GatedFiles {
    files: SimulatedFiles,
    gate: Arc<Gate>,
}

#[derive(Debug)]
struct GatedFile {
    file: Arc<dyn File>,
    gate: Arc<Gate>,
}

impl FileSystem for GatedFiles {
    fn create_dir_all(&self, dir: &Path) -> Result<(), FileError> {
        self.files.create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>, FileError> {
        self.files.list(dir)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>, FileError> {
        Ok(Arc::new(GatedFile { file: self.files.open(path, mode)?, gate: Arc::clone(&self.gate) }))
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, FileError> {
        self.files.read(path)
    }

    fn open_to_read(&self, path: &Path) -> Result<Arc<dyn ReadFile>, FileError> {
        self.files.open_to_read(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), FileError> {
        self.files.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<(), FileError> {
        self.files.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> Result<(), FileError> {
        self.files.sync_dir(dir)
    }

    fn exists(&self, path: &Path) -> Result<bool, FileError> {
        self.files.exists(path)
    }

    fn len(&self, path: &Path) -> Result<u64, FileError> {
        self.files.len(path)
    }

    fn lock(&self, dir: &Path) -> Result<DirectoryLock, FileError> {
        self.files.lock(dir)
    }
}

impl File for GatedFile {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> Result<(), FileError> {
        if bytes.len() >= LARGE {
            self.gate.pass();
        }
        self.file.write_all_at(offset, bytes)
    }

    fn sync_data(&self) -> Result<(), FileError> {
        self.file.sync_data()
    }

    fn sync_all(&self) -> Result<(), FileError> {
        self.file.sync_all()
    }

    fn len(&self) -> Result<u64, FileError> {
        self.file.len()
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<(), FileError> {
        self.file.allocate(offset, len)
    }

    fn set_len(&self, len: u64) -> Result<(), FileError> {
        self.file.set_len(len)
    }
}

fn open(files: Arc<dyn FileSystem>, durability: Durability) -> Store {
    let options = StoreOptions { durability, ..StoreOptions::default() };
    Store::open_tuned(files, Path::new("/db"), options, LogOptions::default(), Sizes::default()).unwrap()
}

/// Where nobody waits for a sync, the bytes of a large transaction used to be written under the leader's lock: nobody
/// committed meanwhile. They are written behind it; what comes behind them in the log is told when they are there, as a process
/// that ends before would lose it with them.
#[test]
fn beside_bytes_that_take_long_the_leader_goes_on_and_nobody_is_told_before_they_are_written() {
    for durability in [Durability::None, Durability::Fsync] {
        let files = GatedFiles { files: SimulatedFiles::new(1), gate: Arc::default() };
        let store = open(Arc::new(files.clone()), durability);
        let def = make_table(&store);
        files.gate.shut();
        let rows = |store: &Store| store.world().table(def.id).unwrap().row_count();
        std::thread::scope(|scope| {
            let opening = Opening(&files.gate);
            let (tell, told) = mpsc::channel();
            let commit = |id: i32, bytes: usize| {
                let (store, def, tell) = (&store, &def, tell.clone());
                scope.spawn(move || {
                    insert(store, def, id, bytes).unwrap();
                    tell.send(id).unwrap();
                });
            };
            commit(1, 2 * LARGE);
            files.gate.wait_for_a_write();
            for id in 2..6 {
                commit(id, 10);
            }
            // They are applied: the leader's lock is not held.
            let begun = std::time::Instant::now();
            while store.shared.applied().table(def.id).unwrap().row_count() < 5 {
                assert!(begun.elapsed() < PATIENCE, "{durability:?}: the others go on");
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(told.recv_timeout(Duration::from_millis(30)).is_err(), "{durability:?}: nobody is told");
            assert_eq!(rows(&store), 0, "{durability:?}: nor sees it");
            // A process that ends now leaves what was acknowledged: nothing but the table.
            let now = open(Arc::new(files.files.copy()), durability);
            assert_eq!(rows(&now), 0);
            drop(now);
            drop(opening);
            let mut ids: Vec<i32> = (0..5).map(|_| told.recv_timeout(PATIENCE).unwrap()).collect();
            ids.sort_unstable();
            assert_eq!(ids, [1, 2, 3, 4, 5]);
        });
        assert_eq!(rows(&store), 5);
        let now = open(Arc::new(files.files.copy()), durability);
        assert_eq!(rows(&now), 5, "{durability:?}: what was acknowledged is there without a sync");
    }
}
