// SPDX-License-Identifier: Apache-2.0
//! [`Archive`]: a place in an object storage, and the few things that are asked of it.

use crate::cloud::{Cloud, is_setting};
use crate::error::ArchiveError;
use crate::names::ARCHIVE;
use crate::patience::Patience;
use crate::refusal::{Cause, Refusal, is_of_keys, passes};
use crate::sealed::{seal, unseal};
use crate::synced_files::SyncedFiles;
use bytes::Bytes;
use coeval_store::files::DIRECTORY_MODE;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt;
use std::fs::DirBuilder;
use std::future::Future;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use url::Url;

/// An archive. Clones share it. All calls block the thread, so none may come from within asynchronous code.
#[derive(Clone)]
pub struct Archive {
    inner: Arc<Inner>,
    patience: Patience,
    /// Once this is set, nothing is waited for.
    stop: Option<Arc<AtomicBool>>,
    /// Once this fails, likewise.
    check: Option<Check>,
}

/// Asked again and again while an archive is waited for.
pub(crate) type Check = Arc<dyn Fn() -> Result<(), ArchiveError> + Send + Sync>;

struct Inner {
    /// As the user knows it.
    place: String,
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// `None` for directories, and storages of the caller's.
    cloud: Option<Cloud>,
    /// No setting has the storage's keys, so the machine is asked for them.
    asks_machine_for_keys: bool,
    /// The storage has answered something, so there were keys.
    has_answered: AtomicBool,
    /// There until it is dropped.
    runtime: Option<Runtime>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Waits for nobody: a request that hangs is not to hold up the end of the program.
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Archive({})", self.inner.place)
    }
}

/// What is there already of what was to be put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    New,
    WasThere,
}

/// Which database an archive is of.
#[derive(Serialize, Deserialize)]
struct Mark {
    database: u64,
}

impl Archive {
    /// Opens a place: `s3://bucket/path`, `gs://bucket/path`, `az://container/path`, `file:///path`, or a directory, which
    /// is made with the first object. The keys of the clouds, and addresses of what speaks as they do, are in the variables of the
    /// environment that their own tools use (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, `GOOGLE_SERVICE_ACCOUNT`, `AZURE_STORAGE_ACCOUNT_NAME` ...).
    /// Nothing is asked of a cloud yet.
    ///
    /// # Errors
    /// [`ArchiveError::Place`].
    pub fn open(place: &str) -> Result<Self, ArchiveError> {
        // What is no text is no setting of a cloud.
        let text =
            |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
        Self::open_with(place, std::env::vars_os().filter_map(text))
    }

    /// The same for who is going to write: a directory that cannot be made is refused now.
    ///
    /// # Errors
    /// [`ArchiveError::Place`].
    pub fn create(place: &str) -> Result<Self, ArchiveError> {
        if let Some(directory) = directory_of(place)? {
            let failed =
                |error: io::Error| ArchiveError::Place { place: place.to_owned(), what: error.to_string() };
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(DIRECTORY_MODE).create(directory).map_err(failed)?;
        }
        Self::open(place)
    }

    /// [`Archive::open`] with these settings in place of the variables of the environment.
    pub(crate) fn open_with(
        place: &str,
        settings: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ArchiveError> {
        let failed = |what: String| ArchiveError::Place { place: place.to_owned(), what };
        if let Some(directory) = directory_of(place)? {
            let files = SyncedFiles::new(&directory).map_err(|error| failed(error.to_string()))?;
            return Self::of(Arc::new(files), Path::default(), place);
        }
        let settings: Vec<_> = settings.into_iter().filter(|(name, _)| is_setting(name)).collect();
        let cloud = Cloud::of(place);
        let has_keys = |cloud: Cloud| settings.iter().any(|(name, _)| cloud.is_source_of_keys(name));
        let asks_machine = cloud.is_some_and(|cloud| !has_keys(cloud) && !cloud.has_keys_at_home());
        let url = Url::parse(place).map_err(|error| failed(error.to_string()))?;
        if cfg!(not(feature = "cloud")) {
            let what = "this program was built for directories alone (feature `cloud` of coeval-archive)";
            return Err(failed(what.to_owned()));
        }
        let (store, prefix) =
            object_store::parse_url_opts(&url, settings).map_err(|error| failed(error.to_string()))?;
        let mut archive = Self::of(Arc::from(store), prefix, place)?;
        if let Some(inner) = Arc::get_mut(&mut archive.inner) {
            inner.cloud = cloud;
            inner.asks_machine_for_keys = asks_machine;
        }
        Ok(archive)
    }

    /// An archive in a storage of the caller's.
    ///
    /// # Errors
    /// [`ArchiveError::Place`] if there are no threads to be had.
    pub fn with_store(store: Arc<dyn ObjectStore>, place: &str) -> Result<Self, ArchiveError> {
        Self::of(store, Path::default(), place)
    }

    fn of(store: Arc<dyn ObjectStore>, prefix: Path, place: &str) -> Result<Self, ArchiveError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("coeval-archive-io")
            .enable_all()
            .build();
        let runtime = runtime
            .map_err(|error| ArchiveError::Place { place: place.to_owned(), what: error.to_string() })?;
        let inner = Inner {
            place: place.to_owned(),
            store,
            prefix,
            cloud: None,
            asks_machine_for_keys: false,
            has_answered: AtomicBool::new(false),
            runtime: Some(runtime),
        };
        Ok(Self { inner: Arc::new(inner), patience: Patience::default(), stop: None, check: None })
    }

    /// The same, waited for in another way.
    #[must_use]
    pub fn with_patience(&self, patience: Patience) -> Self {
        Self { patience, ..self.clone() }
    }

    /// The same, not waited for once `stop` is set: what is under way then ends with [`ArchiveError::Stopping`].
    #[must_use]
    pub fn until(&self, stop: Arc<AtomicBool>) -> Self {
        Self { stop: Some(stop), ..self.clone() }
    }

    /// The same, not waited for once this fails: what is under way then ends with its error.
    pub(crate) fn checked_by(&self, check: Check) -> Self {
        Self { check: Some(check), ..self.clone() }
    }

    /// The same, waited for whether it is to stop or not.
    pub(crate) fn whatever_comes(&self) -> Self {
        Self { stop: None, check: None, ..self.clone() }
    }

    /// The same, waited for whether it is to stop or not, up to this moment: what is under way then ends with [`ArchiveError::Stopping`].
    pub(crate) fn until_moment(&self, end: Instant) -> Self {
        let in_time = move || if Instant::now() < end { Ok(()) } else { Err(ArchiveError::Stopping) };
        Self { stop: None, check: Some(Arc::new(in_time)), ..self.clone() }
    }

    /// The same, asked once: for who tries again by himself.
    pub(crate) fn once(&self) -> Self {
        self.with_patience(self.patience.once())
    }

    /// # Errors
    /// [`ArchiveError::Stopping`]; that of who [checks](Self::checked_by).
    pub(crate) fn check_running(&self) -> Result<(), ArchiveError> {
        match &self.stop {
            Some(stop) if stop.load(Ordering::Relaxed) => Err(ArchiveError::Stopping),
            _ => self.check.as_ref().map_or(Ok(()), |check| check()),
        }
    }

    /// Pauses behind an attempt that failed.
    ///
    /// # Errors
    /// [`ArchiveError::Stopping`].
    pub(crate) fn pause(&self, attempt: u32) -> Result<(), ArchiveError> {
        let end = Instant::now() + self.patience.pause_after(attempt);
        loop {
            self.check_running()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
    }

    /// How it is waited for.
    #[must_use]
    pub fn patience(&self) -> Patience {
        self.patience
    }

    /// Where it is, as it was given.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.inner.place
    }

    /// The id of the database that it is of; `None` if nothing was archived yet.
    ///
    /// # Errors
    /// Those of the storage; [`ArchiveError::Damaged`].
    pub fn database(&self) -> Result<Option<u64>, ArchiveError> {
        let Some(bytes) = self.get(ARCHIVE)? else { return Ok(None) };
        Ok(Some(unseal::<Mark>(ARCHIVE, &bytes)?.0.database))
    }

    /// Makes it the archive of this database, if it is nobody's.
    ///
    /// # Errors
    /// [`ArchiveError::AnotherDatabase`]; [`ArchiveError::Refused`] if the storage overwrites what is there; those of the storage.
    pub(crate) fn claim(&self, database: u64) -> Result<(), ArchiveError> {
        let mark = || seal(&Mark { database }, &[]);
        let found = match self.database()? {
            Some(found) => found,
            None => match self.put_new(ARCHIVE, mark()) {
                Err(ArchiveError::Differs { .. }) => self.database()?.unwrap_or_default(),
                outcome => outcome.map(|_| database)?,
            },
        };
        // Servers that do not know `If-None-Match` take a second object in the place of the first without a word. Asked each
        // time, as the server may be another one than when the archive was begun; what is put is what is there.
        if found == database && self.put_new(ARCHIVE, mark())? == Put::New {
            let (place, what) = (self.place().to_owned(), "create objects without overwriting".to_owned());
            let reason = "look at its rights and settings: it has put one in the place of one that was there";
            let reason = reason.to_owned();
            return Err(ArchiveError::Refused { place, what, reason });
        }
        if found != database {
            let place = self.place().to_owned();
            return Err(ArchiveError::AnotherDatabase { place, database, found });
        }
        Ok(())
    }

    /// Puts an object under a name that nobody has; one with the same contents that is there counts as put.
    ///
    /// # Errors
    /// [`ArchiveError::Differs`] if the one that is there is another one; those of the storage. The object may be there then.
    pub(crate) fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put, ArchiveError> {
        let path = self.path(name);
        let put = self.attempt("take", name, bytes.len(), || {
            let (path, bytes) = (path.clone(), bytes.clone());
            let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
            async move { self.inner.store.put_opts(&path, bytes.into(), options).await.map(drop) }
        })?;
        match put {
            Answer::Given(()) => return Ok(Put::New),
            Answer::WasThere => {}
            // Where objects are put they need not be there before, but what holds them does.
            Answer::IsNotThere(what) => {
                let what = format!("there is no such bucket or container: {what}");
                return Err(ArchiveError::Place { place: self.place().to_owned(), what });
            }
        }
        // Perhaps by an attempt of which it was not known that it succeeded.
        match self.get(name)? {
            Some(there) if there == bytes => Ok(Put::WasThere),
            _ => Err(ArchiveError::Differs { object: name.to_owned() }),
        }
    }

    /// The contents of an object; `None` if it is not there.
    pub(crate) fn get(&self, name: &str) -> Result<Option<Bytes>, ArchiveError> {
        let path = self.path(name);
        let got = self.attempt("give", name, ROOM_FOR_ANSWER, || {
            let path = path.clone();
            async move { self.inner.store.get(&path).await?.bytes().await }
        });
        Ok(got?.given())
    }

    /// The contents of an object that another one names.
    pub(crate) fn fetch(&self, name: &str) -> Result<Bytes, ArchiveError> {
        self.get(name)?.ok_or_else(|| ArchiveError::Missing { object: name.to_owned() })
    }

    /// Whether an object with this name and so many bytes is there.
    pub(crate) fn has(&self, name: &str, bytes: u64) -> Result<bool, ArchiveError> {
        let path = self.path(name);
        let found = self.attempt("look for", name, 0, || {
            let path = path.clone();
            async move { self.inner.store.head(&path).await }
        });
        Ok(found?.given().is_some_and(|object| object.size == bytes))
    }

    /// The names of the objects in a folder and below, sorted, each with its length.
    pub(crate) fn list(&self, folder: &str) -> Result<Vec<(String, u64)>, ArchiveError> {
        self.list_behind(folder, None)
    }

    /// The same, only those whose names come behind this one: a storage that can, begins there.
    pub(crate) fn list_behind(
        &self,
        folder: &str,
        last: Option<&str>,
    ) -> Result<Vec<(String, u64)>, ArchiveError> {
        let (path, last) = (self.path(folder), last.map(|name| self.path(name)));
        let begins_lists = self.inner.cloud.is_none_or(Cloud::begins_lists);
        let listed = self.attempt("list", folder, ROOM_FOR_ANSWER, || {
            let store = &self.inner.store;
            let listed = match &last {
                Some(last) if begins_lists => store.list_with_offset(Some(&path), last),
                _ => store.list(Some(&path)),
            };
            listed.try_collect::<Vec<_>>()
        })?;
        let prefix = self.path("");
        let name = |location: &Path| {
            let text = location.as_ref();
            let rest = text.strip_prefix(prefix.as_ref()).unwrap_or(text);
            rest.trim_start_matches('/').to_owned()
        };
        let mut names: Vec<_> = listed.given().unwrap_or_default();
        names.retain(|object| last.as_ref().is_none_or(|last| object.location > *last));
        names.sort_by(|a, b| a.location.cmp(&b.location));
        Ok(names.iter().map(|object| (name(&object.location), object.size)).collect())
    }

    /// Removes an object, if it is there.
    pub(crate) fn remove(&self, name: &str) -> Result<(), ArchiveError> {
        let path = self.path(name);
        self.attempt("remove", name, 0, || {
            let path = path.clone();
            async move { self.inner.store.delete(&path).await }
        })
        .map(drop)
    }

    fn path(&self, name: &str) -> Path {
        let parts = name.split('/').filter(|part| !part.is_empty());
        parts.fold(self.inner.prefix.clone(), |path, part| path.join(part))
    }

    /// Asks until there is an answer or patience ends.
    fn attempt<T, F: Future<Output = object_store::Result<T>>>(
        &self,
        what: &str,
        name: &str,
        bytes: usize,
        ask: impl Fn() -> F,
    ) -> Result<Answer<T>, ArchiveError> {
        let runtime = self.inner.runtime.as_ref().expect("it is there until this is dropped");
        let (place, what) = (self.place().to_owned(), format!("{what} {name}"));
        let time = self.patience.attempt_max + Duration::from_secs((bytes >> 20) as u64);
        let mut attempt = 1;
        loop {
            let outcome = runtime.block_on(self.answer(time, ask()))?;
            // Who says that he has no keys has not answered as the storage.
            let lacks_keys = |error: &Error| is_of_keys(error) && self.lack_of_keys().is_some();
            let outcome = outcome.filter(|outcome| !outcome.as_ref().is_err_and(lacks_keys));
            if outcome.as_ref().is_some_and(is_of_storage) {
                self.inner.has_answered.store(true, Ordering::Relaxed);
            }
            let reason = match outcome {
                Some(Ok(answer)) => return Ok(Answer::Given(answer)),
                // Who asks at the same moment as another one may be told of a conflict before anything is there.
                Some(Err(ref error @ (Error::AlreadyExists { .. } | Error::Precondition { .. })))
                    if !passes(error) =>
                {
                    return Ok(Answer::WasThere);
                }
                Some(Err(error)) => match (Refusal::of(&error), error) {
                    (Some(refusal), _) => return Err(self.refused(what, &refusal)),
                    (None, error @ Error::NotFound { .. }) => {
                        return Ok(Answer::IsNotThere(error.to_string()));
                    }
                    (None, error) => error.to_string(),
                },
                None => match self.lack_of_keys() {
                    Some(reason) => {
                        return Err(ArchiveError::Refused { place, what, reason: reason.to_owned() });
                    }
                    None => format!("no answer in {} seconds", time.as_secs()),
                },
            };
            if attempt >= self.patience.attempts {
                return Err(ArchiveError::Unreachable { place, what, attempts: attempt, reason });
            }
            tracing::debug!(place, what, attempt, reason, "the archive is asked again");
            self.pause(attempt)?;
            attempt += 1;
        }
    }

    /// What is to be said if nobody answers because nobody gives keys, as far as is known: behind an answer, it is the storage that is
    /// slow.
    fn lack_of_keys(&self) -> Option<&'static str> {
        let lacks = self.inner.asks_machine_for_keys && !self.inner.has_answered.load(Ordering::Relaxed);
        self.inner.cloud.filter(|_| lacks).map(Cloud::lack_of_keys)
    }

    /// What is said of a storage that does not do this, however often it is asked.
    fn refused(&self, what: String, refusal: &Refusal) -> ArchiveError {
        let (place, reason) = (self.place().to_owned(), refusal.reason(self.place()));
        match refusal.cause {
            Cause::Bucket => ArchiveError::Place { place, what: reason },
            Cause::Key | Cause::Permission | Cause::Clock | Cause::Request => {
                ArchiveError::Refused { place, what, reason }
            }
        }
    }

    /// The answer, if there is one in time.
    async fn answer<T>(
        &self,
        time: Duration,
        asked: impl Future<Output = T>,
    ) -> Result<Option<T>, ArchiveError> {
        let end = Instant::now() + time;
        let mut asked = std::pin::pin!(asked);
        loop {
            self.check_running()?;
            match tokio::time::timeout(LOOK_EVERY, &mut asked).await {
                Ok(answer) => return Ok(Some(answer)),
                Err(_) if Instant::now() >= end => return Ok(None),
                Err(_) => {}
            }
        }
    }
}

/// The directory that a place is, unless it is one in a cloud.
fn directory_of(place: &str) -> Result<Option<PathBuf>, ArchiveError> {
    let failed = |what: String| ArchiveError::Place { place: place.to_owned(), what };
    match place.split_once("://") {
        None => Ok(Some(PathBuf::from(place))),
        Some(("file", _)) => {
            let url = Url::parse(place).map_err(|error| failed(error.to_string()))?;
            let path = url.to_file_path();
            path.map(Some).map_err(|()| failed("this is no path of this machine".to_owned()))
        }
        Some(_) => Ok(None),
    }
}

/// Whether the storage has said this itself: what is not understood may come from who was asked for keys.
fn is_of_storage<T>(outcome: &object_store::Result<T>) -> bool {
    let Err(error) = outcome else { return true };
    let is_of_object =
        matches!(error, Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::NotFound { .. });
    !is_of_keys(error) && (is_of_object || passes(error) || Refusal::of(error).is_some())
}

/// What a storage says.
enum Answer<T> {
    Given(T),
    /// The object that was to be made is there.
    WasThere,
    /// The object is not there, or what was to hold it, with what was said of it.
    IsNotThere(String),
}

impl<T> Answer<T> {
    fn given(self) -> Option<T> {
        match self {
            Self::Given(answer) => Some(answer),
            Self::WasThere | Self::IsNotThere(_) => None,
        }
    }
}

/// How often who waits looks whether he is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// An answer may be as long as an object.
const ROOM_FOR_ANSWER: usize = 64 << 20;
