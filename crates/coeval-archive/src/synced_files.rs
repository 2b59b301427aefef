// SPDX-License-Identifier: Apache-2.0
//! [`SyncedFiles`]: a directory as an object storage whose objects are durable when they have been put.
//!
//! `object_store`'s own directories are not synced, so a crash of the machine could leave an object with its name and without
//! its contents. Here an object is written aside, synced, given its name if that is free, and the directories are synced: that of the object each
//! time, those above it once, also where they were there. Whoever has made them may have ended before their names were durable.
//! Nobody but their owner can read them, and his group where the archive's directory lets it in: as with the files of a database,
//! whose rows they have.

use async_trait::async_trait;
use coeval_store::files::{directory_mode, file_mode};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// See the module.
///
/// # Locking
/// Leaf locks, held for moments and across no sync.
#[derive(Debug)]
pub(crate) struct SyncedFiles {
    root: PathBuf,
    /// Directories whose names this process knows to be durable, with those of all above them.
    named: Mutex<BTreeSet<PathBuf>>,
    /// In tests, what was synced.
    #[cfg(test)]
    synced: Mutex<Vec<PathBuf>>,
}

impl fmt::Display for SyncedFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.root.display())
    }
}

impl SyncedFiles {
    /// The directory is made with the first object: who only reads makes none, however the place was spelled.
    pub(crate) fn new(root: &std::path::Path) -> io::Result<Self> {
        let root = std::path::absolute(root)?;
        if root.exists() && !root.is_dir() {
            return Err(ErrorKind::NotADirectory.into());
        }
        Ok(Self {
            root,
            named: Mutex::default(),
            #[cfg(test)]
            synced: Mutex::default(),
        })
    }

    /// Whoever else may write there, or make it, meanwhile.
    fn files(&self) -> Result<LocalFileSystem> {
        match self.root.try_exists() {
            Ok(true) => LocalFileSystem::new_with_prefix(&self.root),
            Ok(false) => {
                let source = Box::new(io::Error::from(ErrorKind::NotFound));
                Err(Error::NotFound { path: self.root.display().to_string(), source })
            }
            Err(source) => Err(Error::Generic { store: "directory", source: Box::new(source) }),
        }
    }

    fn create(&self, location: &Path, payload: &PutPayload) -> io::Result<()> {
        /// So that no two writers of a process have the same file.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let path = self.root.join(location.as_ref());
        let dir = path.parent().unwrap_or(&self.root);
        if !dir.exists() {
            // Somebody may have removed it, and others, since they were looked at.
            self.named.lock().clear();
        }
        DirBuilder::new().recursive(true).mode(directory_mode(&self.root)).create(dir)?;
        // Behind a `#` and digits: a listing does not show it.
        let number = (u64::from(std::process::id()) << 32) + NEXT.fetch_add(1, Ordering::Relaxed);
        let aside = PathBuf::from(format!("{}#{number}", path.display()));
        let written = (|| {
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(file_mode(dir)).open(&aside)?;
            payload.iter().try_for_each(|bytes| file.write_all(bytes))?;
            file.sync_all()?;
            fs::hard_link(&aside, &path)
        })();
        // What is left is in nobody's way.
        let _ = fs::remove_file(&aside);
        match &written {
            // Whoever has written it may have ended before it was durable.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => File::open(&path)?.sync_all()?,
            outcome => {
                outcome.as_ref().map(drop).map_err(|error| io::Error::new(error.kind(), error.to_string()))?
            }
        }
        self.sync(dir)?;
        self.sync_names(dir)?;
        written
    }

    /// Makes the name of a directory durable, and those of all above it, as far as they are not known to be.
    fn sync_names(&self, dir: &std::path::Path) -> io::Result<()> {
        for (made, parent) in dir.ancestors().zip(dir.ancestors().skip(1)) {
            if self.named.lock().contains(made) {
                break;
            }
            match self.sync(parent) {
                // Above the archive: what cannot be opened or synced is none that somebody has just made something in.
                Err(error) if !parent.starts_with(&self.root) && cannot_be_synced(&error) => {}
                outcome => outcome?,
            }
        }
        self.named.lock().extend(dir.ancestors().map(std::path::Path::to_path_buf));
        Ok(())
    }

    fn sync(&self, dir: &std::path::Path) -> io::Result<()> {
        #[cfg(test)]
        self.synced.lock().push(dir.to_path_buf());
        File::open(dir)?.sync_all()
    }
}

/// Whether that is no failure of the disk: nobody may read the directory, or its file system syncs none.
fn cannot_be_synced(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::InvalidInput
            | ErrorKind::Unsupported
    )
}

#[async_trait]
impl ObjectStore for SyncedFiles {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        if options.mode != PutMode::Create {
            return self.files()?.put_opts(location, payload, options).await;
        }
        self.create(location, &payload).map_err(|source| match source.kind() {
            ErrorKind::AlreadyExists => {
                Error::AlreadyExists { path: location.to_string(), source: Box::new(source) }
            }
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                Error::PermissionDenied { path: location.to_string(), source: Box::new(source) }
            }
            _ => Error::Generic { store: "directory", source: Box::new(source) },
        })?;
        Ok(PutResult { e_tag: None, version: None })
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.files()?.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.files()?.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        match self.files() {
            Ok(files) => files.delete_stream(locations),
            Err(error) => stream::once(async { Err(error) }).boxed(),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.files() {
            Ok(files) => files.list(prefix),
            Err(error) => stream::once(async { Err(error) }).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.files()?.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.files()?.copy_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    /// They were synced by nobody but who made them. Seen to fail so.
    #[test]
    fn directories_that_somebody_has_made_and_not_synced_are_synced_by_the_next_object() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("place/archive");
        let dir = root.join("log/term");
        fs::create_dir_all(&dir).unwrap();
        let files = SyncedFiles::new(&root).unwrap();
        let put = |name: &str| {
            files.create(&Path::from(name), &PutPayload::from_static(b"object")).unwrap();
            std::mem::take(&mut *files.synced.lock())
        };
        let first = put("log/term/1");
        let above: Vec<_> = dir.ancestors().map(std::path::Path::to_path_buf).collect();
        assert_eq!(first, above, "its directory, and each up to the root of the file system");
        assert_eq!(put("log/term/2"), std::slice::from_ref(&dir));
        let beside = put("log/another/1");
        assert!(beside.contains(&root.join("log")) && beside.contains(&root.join("log/another")));
        // What was removed has to be made and synced anew.
        fs::remove_dir_all(&root).unwrap();
        let again = put("log/term/1");
        assert!(again.contains(&home.path().join("place")) && again.contains(&root), "{again:?}");
        assert_eq!(fs::read(dir.join("1")).unwrap(), b"object");
    }

    fn mode_of(path: &std::path::Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    /// Whoever was on the machine could read backups: what they have of the log and of the tables has everybody's rows.
    #[test]
    fn nobody_else_can_read_an_object_unless_the_directory_lets_its_group_in() {
        let around = tempfile::tempdir().unwrap();
        let root = around.path().join("archive");
        let files = SyncedFiles::new(&root).unwrap();
        let made = |name: &str| {
            files.create(&Path::from(name), &PutPayload::from_static(b"rows")).unwrap();
            let path = root.join(name);
            (mode_of(path.parent().unwrap()), mode_of(&path))
        };
        assert_eq!(made("one/object"), (0o700, 0o600));
        assert_eq!((mode_of(&root), made("at-the-root").1), (0o700, 0o600));
        // A directory that somebody made for everybody gives nobody an object.
        for (directory, expected) in
            [(0o750, (0o750, 0o640)), (0o755, (0o700, 0o600)), (0o777, (0o700, 0o600))]
        {
            fs::set_permissions(&root, Permissions::from_mode(directory)).unwrap();
            assert_eq!(made(&format!("in-{directory:o}/object")), expected, "in one of mode {directory:o}");
        }
    }
}
