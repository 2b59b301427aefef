// SPDX-License-Identifier: Apache-2.0
//! [`SyncedFiles`]: a directory as an object storage whose objects are durable when they have been put.
//!
//! `object_store`'s own directories are not synced, so a crash of the machine could leave an object with its name and without
//! its contents. Here an object is written aside, synced, given its name if that is free, and the directories are synced. Nobody but
//! their owner can read them, and his group where the archive's directory lets it in: as with the files of a database, whose rows
//! they have.

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
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// See the module.
#[derive(Debug)]
pub(crate) struct SyncedFiles {
    root: PathBuf,
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
        Ok(Self { root })
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
        let made: Vec<_> = dir.ancestors().take_while(|dir| !dir.exists()).collect();
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
        for dir in made.iter().filter_map(|dir| dir.parent()).chain([dir]) {
            File::open(dir)?.sync_all()?;
        }
        written
    }
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
