// SPDX-License-Identifier: Apache-2.0
//! A storage that is slow, fails, forgets to say that it succeeded, and is gone for a while.

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A call that hangs is answered behind that: longer than the tests that ask for it wait for one attempt.
pub(super) const HANG: Duration = Duration::from_millis(60);

/// See the module.
#[derive(Debug)]
pub(super) struct Faulty {
    pub(super) inner: Arc<dyn ObjectStore>,
    dice: Mutex<StdRng>,
    /// Of a hundred calls so many fail, half of them after they were carried out.
    pub(super) percent: AtomicU32,
    /// Of a thousand calls so many are answered after [`HANG`] only.
    pub(super) hangs: AtomicU32,
    /// Whether it is gone.
    pub(super) is_gone: AtomicBool,
    /// It does not know that something is not to be overwritten.
    pub(super) overwrites: AtomicBool,
    /// Calls from this one on fail, until it is set anew.
    pub(super) fails_from: AtomicU64,
    pub(super) calls: AtomicU64,
    pub(super) faults: AtomicU64,
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a faulty storage")
    }
}

fn failed(what: &'static str) -> Error {
    Error::Generic { store: "faulty", source: what.into() }
}

impl Faulty {
    pub(super) fn new(inner: Arc<dyn ObjectStore>, seed: u64, percent: u32) -> Arc<Self> {
        Arc::new(Self {
            inner,
            dice: Mutex::new(StdRng::seed_from_u64(seed)),
            percent: AtomicU32::new(percent),
            hangs: AtomicU32::new(0),
            is_gone: AtomicBool::new(false),
            overwrites: AtomicBool::new(false),
            fails_from: AtomicU64::new(u64::MAX),
            calls: AtomicU64::new(0),
            faults: AtomicU64::new(0),
        })
    }

    pub(super) fn in_memory(seed: u64, percent: u32) -> Arc<Self> {
        Self::new(Arc::new(InMemory::new()), seed, percent)
    }

    /// Turns a bit of an object.
    pub(super) async fn damage(&self, location: &Path, at: u64) {
        let mut bytes = self.inner.get(location).await.unwrap().bytes().await.unwrap().to_vec();
        let at = usize::try_from(at % bytes.len() as u64).unwrap();
        bytes[at] ^= 16;
        self.inner.put(location, bytes.into()).await.unwrap();
    }

    /// Whether this call fails, before or after it was carried out.
    async fn throw(&self) -> (bool, bool) {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        let (pause, fails, is_late, hangs) = {
            let mut dice = self.dice.lock().unwrap();
            let fails = dice.random_ratio(self.percent.load(Ordering::SeqCst), 100);
            let drawn = (dice.random_range(0..20), fails, dice.random_ratio(1, 2));
            // Nothing is drawn where nothing hangs, so that older tests go on as they did.
            let hangs = self.hangs.load(Ordering::SeqCst);
            (drawn.0, drawn.1, drawn.2, hangs > 0 && dice.random_ratio(hangs, 1_000))
        };
        if hangs {
            tokio::time::sleep(HANG).await;
        }
        if pause == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let is_over = self.is_gone.load(Ordering::SeqCst) || call >= self.fails_from.load(Ordering::SeqCst);
        if fails || is_over {
            self.faults.fetch_add(1, Ordering::SeqCst);
        }
        (is_over || (fails && !is_late), fails && is_late)
    }

    async fn before(&self) -> Result<Answer> {
        let (early, late) = self.throw().await;
        match (early, late) {
            (true, _) => Err(failed("it did nothing")),
            (false, true) => Ok(Answer::Lost),
            (false, false) => Ok(Answer::Given),
        }
    }
}

/// Whether a call that is carried out says so.
#[derive(Clone, Copy)]
enum Answer {
    Given,
    Lost,
}

impl Answer {
    fn of<T>(self, value: T) -> Result<T> {
        match self {
            Self::Given => Ok(value),
            Self::Lost => Err(failed("it did what was asked, and does not say so")),
        }
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        mut options: PutOptions,
    ) -> Result<PutResult> {
        let answer = self.before().await?;
        if self.overwrites.load(Ordering::SeqCst) {
            options.mode = PutMode::Overwrite;
        }
        answer.of(self.inner.put_opts(location, payload, options).await?)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let answer = self.before().await?;
        answer.of(self.inner.get_opts(location, options).await?)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        // Deletes are asked for one by one; what a failure of theirs means is the same as of others.
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let fails = {
            let mut dice = self.dice.lock().unwrap();
            dice.random_ratio(self.percent.load(Ordering::SeqCst), 100)
        };
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        let is_over = call >= self.fails_from.load(Ordering::SeqCst);
        let listed = self.inner.list(prefix);
        if fails || is_over || self.is_gone.load(Ordering::SeqCst) {
            self.faults.fetch_add(1, Ordering::SeqCst);
            // It ends in the middle.
            let end = futures::stream::once(async { Err(failed("the listing ended")) });
            return listed.take(1).chain(end).boxed();
        }
        listed
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
