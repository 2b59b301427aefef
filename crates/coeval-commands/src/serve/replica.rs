// SPDX-License-Identifier: Apache-2.0
//! A server that follows another one, or its archive.

use super::{once_closed, own_files, within};
use crate::arguments::ServeArguments;
use crate::directory::{Contents, look};
use crate::failure::Failure;
use crate::machines::{Machines, names_of};
use crate::secret_file::secret_in;
use coeval::{
    Database, DatabaseOptions, Error, Promise, PromotionLoss, Rewound, SqlError, SqlState, Store, StoreError,
    TermNumber, Upstream, UpstreamState, UpstreamStatus,
};
use coeval_archive::{Archive, copy_newest};
use coeval_replica::{
    ArchiveSource, Kinship, Link, Loss, NewHistory, PrimaryAddress, Replica, ReplicaError, ReplicaState,
    ReplicaStatus, ReplicaWatch, SourceAddress, Sources, copy_database, promises_for,
};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a copy says how much has come.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// How long a machine is asked whose log has parted from that of a replica, which serves nobody meanwhile.
const ASK_PATIENCE: Duration = Duration::from_secs(3);

/// Opens the replica in a directory, which is made of a copy of the primary's or of the archive's if it is new, and begins to
/// follow.
///
/// # Errors
/// If nobody gives a copy, or the directory holds something else.
pub(super) fn open(
    dir: &Path,
    of: &str,
    arguments: &ServeArguments,
    options: DatabaseOptions,
) -> Result<(Database, Following), Failure> {
    let mut address = SourceAddress::parse(of).map_err(|error| Failure::Usage(error.to_string()))?;
    let is_for_nobody = address.primary.is_none() && arguments.machines.peers.is_empty();
    if is_for_nobody && arguments.replica_password_file.is_some() {
        let message = "--replica-password-file is for a primary, and --replica-of names none";
        return Err(Failure::Usage(message.to_owned()));
    }
    let password = arguments.replica_password_file.as_deref().map(secret_in).transpose()?;
    if let (Some(primary), Some(password)) = (&mut address.primary, &password) {
        primary.password = Some(password.clone());
    }
    let mut sources = sources(address, arguments)?;
    let machines = Machines::of(&arguments.machines, sources.primary.as_ref(), password.as_deref())?;
    if let Some(primary) = sources.primary.as_mut().filter(|_| arguments.machines.name.is_some()) {
        machines.own.clone_into(&mut primary.application_name);
    }
    sources.peers.clone_from(&machines.peers);
    go_on_rewinding(dir)?;
    let is_replica = Database::is_replica(dir)
        .map_err(|error| Failure::work(format_args!("cannot look at {}", dir.display()), error))?;
    let link = match look(dir)? {
        Contents::Database if !is_replica => rejoined(&sources, dir)?,
        Contents::Database => None,
        Contents::Nothing | Contents::Remains => copied(&sources, dir)?,
        Contents::Foreign => {
            return Err(Failure::Work(format!(
                "{} is not a database and not empty; name the directory of a replica, or a new or empty one",
                dir.display()
            )));
        }
    };
    let opened = options.open_replica(dir);
    let (database, follower) =
        opened.map_err(|error| Failure::work(format_args!("cannot open {}", dir.display()), error))?;
    let store = database.engine().store().clone();
    store.set_own_name(&machines.own).map_err(|error| Failure::work("cannot follow", error))?;
    store.set_peer_names(names_of(&machines.peers));
    let former = sources.primary.clone();
    let primary = former.as_ref().map(|primary| (primary.host.clone(), primary.port));
    let (host, port) = primary.unwrap_or_default();
    let slot = former.as_ref().and_then(|primary| primary.slot.clone());
    let replica = Replica::start(follower, sources, link)
        .map_err(|error| Failure::work("cannot start a thread for the replica", error))?;
    let promise = Arc::new(Mutex::new(None));
    let upstream =
        Shown { watch: replica.watch(), host, port, slot, store, machines, promise: Arc::clone(&promise) };
    database.engine().set_upstream(Arc::new(upstream));
    Ok((database, Following { replica, former, promise }))
}

/// A replica that follows.
///
/// # Locking
/// `promise` is a leaf lock, held for moments.
pub(super) struct Following {
    /// Follows as long as it is there.
    replica: Replica,
    /// Whom it was told to follow.
    pub(super) former: Option<PrimaryAddress>,
    promise: Arc<Mutex<Option<Promise>>>,
}

impl Following {
    /// What it is to be promoted with, once that was asked for.
    pub(super) fn promise(&self) -> Option<Promise> {
        *self.promise.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whose log its own has parted from, as soon as that is found and its own can be cut back.
    pub(super) async fn parted_from(&self) -> NewHistory {
        self.replica.parted_from().await
    }
}

/// Where the replica stands, for who asks the database.
///
/// # Locking
/// See [`Following`].
struct Shown {
    watch: ReplicaWatch,
    host: String,
    port: u16,
    slot: Option<String>,
    store: Store,
    machines: Machines,
    promise: Arc<Mutex<Option<Promise>>>,
}

impl Upstream for Shown {
    fn status(&self) -> UpstreamStatus {
        let ReplicaStatus { state, taken, durable, last_word, .. } = self.watch.status();
        let (state, reason) = match state {
            ReplicaState::Following => (UpstreamState::Streaming, None),
            ReplicaState::FollowingArchive(reason) => (UpstreamState::Archive, reason),
            ReplicaState::Connecting(reason) => (UpstreamState::Waiting, reason),
            ReplicaState::Stopped(reason) => (UpstreamState::Stopped, Some(reason)),
        };
        UpstreamStatus {
            state,
            reason,
            host: self.host.clone(),
            port: self.port,
            written: taken,
            flushed: durable,
            slot: self.slot.clone(),
            last_word,
        }
    }

    fn stand_for_promotion(&self, loss: PromotionLoss) -> Result<(), SqlError> {
        let loss = match loss {
            PromotionLoss::Refused => Loss::Refused,
            PromotionLoss::Accepted => Loss::Accepted,
        };
        let promise = promises_for(&self.store, &self.machines.own, &self.machines.peers, loss);
        let promise = promise.map_err(|error| {
            let message = format!("the replica is not promoted: {error}");
            SqlError::new(SqlState::ObjectNotInPrerequisiteState, message).with_hint(
                "Other machines are asked that --peer names. coeval_promote_accepting_loss() gives up what this one \
                 may not have.",
            )
        })?;
        *self.promise.lock().unwrap_or_else(PoisonError::into_inner) = Some(promise);
        Ok(())
    }
}

/// Has a former primary's directory follow the new one, or what the archive has of that if no machine is named: as it is, if its log is the
/// beginning of that one's; cut back to where the two part, if no checkpoint has passed that; else it is put aside, and a copy comes in its
/// place.
fn rejoined(sources: &Sources, dir: &Path) -> Result<Option<Link>, Failure> {
    let from = match (&sources.primary, &sources.archive) {
        (Some(primary), _) => NewHistory::Of(primary.clone()),
        (None, Some(source)) => NewHistory::In(source.archive.clone()),
        (None, None) => return Err(Failure::Usage("--replica-of names nobody to follow".to_owned())),
    };
    let failed =
        |error: &dyn fmt::Display| Failure::Work(format!("{} cannot follow {from}: {error}", dir.display()));
    let former = Database::former_primary(dir).map_err(|error| failed(&error))?;
    match from.kinship_of_primary(&former).map_err(|error| failed(&error))? {
        Kinship::Beginning => {
            Database::demote(dir).map_err(|error| failed(&error))?;
            eprintln!(
                "{} was a primary and has nothing that {from} does not have: it follows",
                dir.display()
            );
            Ok(None)
        }
        Kinship::Rewindable { place, timeline } => {
            let rewound = Database::rewind(dir, place, timeline).map_err(|error| failed(&error))?;
            say_rewound(dir, &rewound);
            Ok(None)
        }
        Kinship::Stranger(error) => Err(failed(&error)),
        Kinship::Parted(error) => {
            let term = TermNumber(former.terms.last().map_or(0, |term| term.number));
            let aside = aside_of(dir, term);
            own_files::put_aside(dir, &aside)
                .map_err(|error| Failure::work(format_args!("cannot put {} aside", dir.display()), error))?;
            eprintln!("{} was a primary, and cannot go on as a replica: {error}", dir.display());
            eprintln!(
                "It is now {}, with all that it had; coeval sql opens it. A copy takes its place, by the same rules (pg_hba.conf).",
                aside.display()
            );
            copied(sources, dir)
        }
    }
}

/// Whether the log of a replica was cut back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CutBack {
    Done,
    /// It is as before, and finds again how it stands when it follows.
    NotDone,
}

/// Cuts the log of a replica back to where it parts from that of a machine that was promoted, or that follows one, or from what the archive
/// has of one, if that still can be done once nobody has it open any more.
///
/// # Errors
/// If its directory cannot be looked at, was promoted meanwhile, or cutting back has failed: the next start goes on with that.
pub(super) fn cut_back(dir: &Path, from: &NewHistory) -> Result<CutBack, Failure> {
    let own = once_closed(|| Database::former_primary(dir))
        .map_err(|error| Failure::work(format_args!("cannot look at {}", dir.display()), error))?;
    let (place, timeline) = match within(ASK_PATIENCE, || from.kinship(&own)) {
        Ok(Kinship::Rewindable { place, timeline }) => (place, timeline),
        Ok(other) => {
            tracing::warn!(primary = %from, found = ?other, "the replica is not cut back");
            return Ok(CutBack::NotDone);
        }
        Err(error) => {
            tracing::warn!(primary = %from, %error, "the replica is not cut back for the moment");
            return Ok(CutBack::NotDone);
        }
    };
    match Database::rewind(dir, place, timeline) {
        Ok(rewound) => {
            say_rewound(dir, &rewound);
            Ok(CutBack::Done)
        }
        // A checkpoint has passed the place before it was closed.
        Err(Error::Store(error @ StoreError::NotRewindable { .. })) => {
            tracing::warn!(%error, "the replica is not cut back");
            Ok(CutBack::NotDone)
        }
        Err(error) => Err(Failure::work(format_args!("cannot cut back the log of {}", dir.display()), error)),
    }
}

/// Goes on with cutting back the log of a former primary, or of a replica, if an earlier start did not come to the end of that.
fn go_on_rewinding(dir: &Path) -> Result<(), Failure> {
    let rewound = Database::go_on_rewinding(dir).map_err(|error| {
        Failure::work(format_args!("cannot cut back the log of {}", dir.display()), error)
    })?;
    if let Some(rewound) = rewound {
        say_rewound(dir, &rewound);
    }
    Ok(())
}

/// Says what was cut off the log of a former primary, or of a replica, and where it lies.
fn say_rewound(dir: &Path, rewound: &Rewound) {
    let Rewound { aside, place, end, transactions } = rewound;
    eprintln!(
        "{}: its log is cut back to {place}, where it parts from the new primary's: it goes on as a replica, without a copy",
        dir.display()
    );
    eprintln!(
        "What was cut off, up to {end}, lies in {}. Transactions in it that the new primary never had: {transactions}",
        aside.display()
    );
}

/// A name that nobody has, beside the directory.
fn aside_of(dir: &Path, term: TermNumber) -> PathBuf {
    // Without a slash at the end.
    let dir: PathBuf = dir.components().collect();
    let mut names = (1..).map(|number| {
        let mut name = dir.as_os_str().to_owned();
        let tail = if number == 1 { format!(".term-{term}") } else { format!(".term-{term}-{number}") };
        name.push(tail);
        PathBuf::from(name)
    });
    names.find(|path| !path.exists()).expect("there are names enough")
}

fn sources(address: SourceAddress, arguments: &ServeArguments) -> Result<Sources, Failure> {
    let interval = Duration::from_secs_f64(arguments.replica_poll);
    let archive = address.archive.as_deref().map(Archive::open).transpose();
    let archive = archive.map_err(|error| Failure::work("cannot follow", error))?;
    let clock_difference = address.clock_difference;
    let archive = archive.map(|archive| ArchiveSource { archive, interval, clock_difference });
    Ok(Sources { primary: address.primary, archive, peers: Vec::new() })
}

/// Makes the copy that a replica begins with: of the primary's database or, if the primary does not answer, of the archive's
/// newest backup. Returns the connection to the primary, if it is from there.
fn copied(from: &Sources, dir: &Path) -> Result<Option<Link>, Failure> {
    let failed = |from: &dyn fmt::Display, error: ReplicaError| {
        Failure::work(format_args!("cannot copy the database of {from}"), error)
    };
    // A signal ends the program: nobody listens to any yet.
    let stop = AtomicBool::new(false);
    let unreached = match &from.primary {
        None => None,
        Some(primary) => match told(primary, |progress| copy_database(primary, dir, &stop, progress)) {
            Ok(link) => return Ok(Some(link)),
            Err(error @ ReplicaError::Connection { .. }) if from.archive.is_some() => Some(error),
            Err(error) => return Err(failed(primary, error)),
        },
    };
    if let Some(error) = unreached {
        eprintln!("The primary does not answer ({error})");
    }
    let Some(ArchiveSource { archive, .. }) = &from.archive else { return Ok(None) };
    let place = format!("the archive {}", archive.place());
    told(&place, |progress| Ok(copy_newest(archive, dir, progress)?))
        .map_err(|error| failed(&place, error))?;
    Ok(None)
}

/// Says how a copy goes, which tells what it is given how many bytes have come.
fn told<T>(
    from: &dyn fmt::Display,
    copy: impl FnOnce(&mut dyn FnMut(u64)) -> Result<T, ReplicaError>,
) -> Result<T, ReplicaError> {
    eprintln!("Copying the database of {from}");
    let (begun, mut said) = (Instant::now(), Instant::now());
    let mut came = 0;
    let copied = copy(&mut |bytes| {
        came = bytes;
        if said.elapsed() >= PROGRESS_INTERVAL {
            said = Instant::now();
            eprintln!("  {} MB", bytes >> 20);
        }
    })?;
    eprintln!("Copied {} MB in {:.1} s", came >> 20, begun.elapsed().as_secs_f64());
    Ok(copied)
}
