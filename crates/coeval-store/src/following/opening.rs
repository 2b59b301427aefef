// SPDX-License-Identifier: Apache-2.0
//! Opening a store that follows the log of another one.

use super::Follower;
use crate::error::StoreError;
use crate::files::FileSystem;
use crate::log::LogOptions;
use crate::options::{Sizes, StoreOptions};
use crate::recovery::{Recovered, Role, recover};
use crate::shared::{Shared, Standing};
use crate::store::Store;
use std::path::Path;
use std::sync::Arc;

impl Store {
    /// Opens a directory that [`CopyWriter`](crate::CopyWriter) has made, to follow the log of the database that it is a
    /// copy of. The store can be read at once; what the [`Follower`] takes is seen as it comes.
    ///
    /// # Errors
    /// As [`Store::open_with`]; [`StoreError::FollowsNobody`], [`StoreError::UnfinishedCopy`].
    pub fn open_follower(
        files: Arc<dyn FileSystem>,
        dir: &Path,
        options: StoreOptions,
    ) -> Result<(Self, Follower), StoreError> {
        Self::open_follower_tuned(files, dir, options, LogOptions::default(), Sizes::default())
    }

    /// As [`Store::open_follower`], with sizes for tests.
    pub(crate) fn open_follower_tuned(
        files: Arc<dyn FileSystem>,
        dir: &Path,
        options: StoreOptions,
        log: LogOptions,
        sizes: Sizes,
    ) -> Result<(Self, Follower), StoreError> {
        Self::open_follower_as(files, dir, options, (log, sizes), Role::Follower)
    }

    /// As [`Store::open_follower_tuned`], in this role of one who follows.
    pub(crate) fn open_follower_as(
        files: Arc<dyn FileSystem>,
        dir: &Path,
        options: StoreOptions,
        (log, sizes): (LogOptions, Sizes),
        role: Role,
    ) -> Result<(Self, Follower), StoreError> {
        let Recovered { contents, log, disk, applied } = recover(files, dir, log, role)?;
        let sizes = Sizes { heartbeat: None, ..sizes };
        let store = Self::new(Shared::new(options, sizes, contents, log, Some(disk), Standing::Follows));
        let follower = Follower::new(Arc::clone(&store.shared), applied);
        follower.go_on_from_standing()?;
        Ok((store, follower))
    }
}
