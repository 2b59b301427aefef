// SPDX-License-Identifier: Apache-2.0
//! A copy of a directory in memory: to put it back as it was, and to change it in one place.

use rand::Rng;
use rand::rngs::SmallRng;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The files of a directory, by their paths in it.
pub(crate) struct Image {
    files: BTreeMap<PathBuf, Vec<u8>>,
}

/// What is done to a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// The bits of `mask` are turned.
    Flip { offset: usize, mask: u8 },
    /// So many bytes become zero.
    Zero { offset: usize, bytes: usize },
    /// The file ends here.
    Cut { len: usize },
}

impl Change {
    /// Mostly one byte, sometimes a sector, sometimes the rest of the file.
    pub(crate) fn random(len: usize, dice: &mut SmallRng) -> Self {
        let offset = dice.random_range(0..len.max(1));
        match dice.random_range(0..10) {
            0 => Self::Cut { len: offset },
            1 | 2 => Self::Zero { offset, bytes: 512 },
            _ => Self::Flip { offset, mask: 1 << dice.random_range(0..8) },
        }
    }
}

impl Image {
    pub(crate) fn of(dir: &Path) -> Self {
        let mut files = BTreeMap::new();
        let mut dirs = vec![PathBuf::new()];
        while let Some(inside) = dirs.pop() {
            for entry in std::fs::read_dir(dir.join(&inside)).unwrap() {
                let entry = entry.unwrap();
                let path = inside.join(entry.file_name());
                if entry.file_type().unwrap().is_dir() {
                    dirs.push(path);
                } else {
                    files.insert(path, std::fs::read(entry.path()).unwrap());
                }
            }
        }
        Self { files }
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.keys().map(PathBuf::as_path)
    }

    pub(crate) fn len(&self, file: &Path) -> usize {
        self.files[file].len()
    }

    /// The length without zeros at the end: the log makes room ahead.
    pub(crate) fn used(&self, file: &Path) -> usize {
        self.files[file].iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
    }

    /// Makes the directory what it was; files that came since go.
    pub(crate) fn restore(&self, dir: &Path) {
        let now = Self::of(dir);
        for file in now.files().filter(|file| !self.files.contains_key(*file)) {
            std::fs::remove_file(dir.join(file)).unwrap();
        }
        for (file, bytes) in &self.files {
            if now.files.get(file) != Some(bytes) {
                // A new file under the old name: mappings of the old one keep what they show.
                let _ = std::fs::remove_file(dir.join(file));
                std::fs::write(dir.join(file), bytes).unwrap();
            }
        }
    }

    /// Writes the file as it was, but changed.
    pub(crate) fn change(&self, dir: &Path, file: &Path, change: Change) {
        let mut bytes = self.files[file].clone();
        match change {
            Change::Flip { offset, mask } => {
                if let Some(byte) = bytes.get_mut(offset) {
                    *byte ^= mask;
                }
            }
            Change::Zero { offset, bytes: count } => {
                let end = bytes.len().min(offset + count);
                bytes[offset.min(end)..end].fill(0);
            }
            Change::Cut { len } => bytes.truncate(len),
        }
        std::fs::remove_file(dir.join(file)).unwrap();
        std::fs::write(dir.join(file), bytes).unwrap();
    }
}
