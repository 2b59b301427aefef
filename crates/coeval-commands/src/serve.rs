// SPDX-License-Identifier: Apache-2.0
//! `coeval serve`: the database for clients that speak PostgreSQL's protocol.

mod archive;
mod backups;
mod changes;
mod cluster;
mod engine;
pub(crate) mod log;
mod own_files;
mod primary;
mod replica;
mod spread_place;

use crate::arguments::ServeArguments;
use crate::directory;
use crate::failure::Failure;
use crate::secret_file::secret_in;
use crate::served::{self, Served, ServedFile};
use coeval::{Database, Promise, SafeLogging};
use coeval_console::{Console, ConsoleOptions};
use coeval_replica::{NewHistory, PrimaryAddress, PrimaryWatch};
use coeval_server::{Certificate, Roles, Server, ServerOptions};
use own_files::{MOCK_SECRET_FILE, RULES_FILE};
use replica::CutBack;
use spread_place::SpreadPlace;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

/// How a run of the server has ended.
#[derive(Debug)]
enum Ended {
    Stopped,
    /// The replica is to be a database of its own, and served again at this address.
    Promoted(Promoted),
    /// The replica has log that whom it is to follow now never had: it is to be cut back, and served again at this address.
    Parted {
        address: SocketAddr,
        from: NewHistory,
    },
}

/// What was served before, by this program.
#[derive(Debug)]
enum Before {
    Nothing,
    /// A replica, which is promoted now.
    Promoted(Promoted),
    /// A replica that was to be promoted, and could not be: it goes on as what it was.
    NotPromoted,
    /// A replica that was closed to be cut back. If that was not done, it is not closed for it again before so long.
    Parted {
        pause: Duration,
    },
}

/// How a replica goes on that is promoted.
#[derive(Debug)]
struct Promoted {
    address: SocketAddr,
    promise: Promise,
    /// Whom it followed.
    former: Option<PrimaryAddress>,
}

/// A promoted replica is opened again as soon as nobody has it open any more; what reads for clients that have gone may take a
/// moment to notice.
const REOPEN_PATIENCE: Duration = Duration::from_secs(30);

/// See [`REOPEN_PATIENCE`].
const REOPEN_PAUSE: Duration = Duration::from_millis(20);

/// Sessions were given their time before. A checkpoint that one of them has begun may take longer; a file that does not answer may never do.
const LEAVING_PATIENCE: Duration = Duration::from_secs(60);

/// A replica that could not be cut back is served for so long before its sessions are ended for the next attempt: at first, and at
/// most.
const PARTED_PAUSE_MIN: Duration = Duration::from_secs(5);
/// See [`PARTED_PAUSE_MIN`].
const PARTED_PAUSE_MAX: Duration = Duration::from_secs(600);

/// Serves until Ctrl-C or SIGTERM. A replica that is promoted is served on as a database of its own; one whose log has to be cut
/// back is served on behind that.
///
/// # Errors
/// If the database cannot be opened, the address cannot be listened on, or a file named on the command line cannot be
/// used.
pub(crate) fn run(arguments: &ServeArguments) -> Result<(), Failure> {
    log::begin(if arguments.log_json { log::Format::Json } else { log::Format::Text });
    if arguments.while_input_lasts {
        std::thread::spawn(end_with_input);
    }
    if let Some(dir) = &arguments.dir {
        // Before it is looked whether there are rules.
        own_files::go_on(dir)
            .map_err(|error| Failure::work(format_args!("cannot make {}", dir.display()), error))?;
    }
    let mut arguments = arguments.clone();
    let (mut before, mut pause) = (Before::Nothing, Duration::ZERO);
    let mut stop = StopNote::default();
    loop {
        let ended = serve(&arguments, before, &mut stop)?;
        let dir = || arguments.dir.as_deref().expect("a replica has a directory");
        match ended {
            Ended::Stopped => return Ok(()),
            Ended::Promoted(promoted) => {
                let dir = dir();
                let outcome = once_closed(|| Database::promote(dir, promoted.promise));
                arguments.listen = promoted.address.to_string();
                before = behind_promotion(dir, outcome, promoted)?;
            }
            Ended::Parted { address, from } => {
                pause = pause_behind(replica::cut_back(dir(), &from)?, pause);
                arguments.listen = address.to_string();
                before = Before::Parted { pause };
            }
        }
        if stop.is_asked() {
            eprintln!("{}", crate::interrupt::STOPPING);
            return Ok(());
        }
    }
}

/// What is served next behind a promotion. One that failed has left a replica, which answers from what it has, and may be promoted
/// again: with the program, both would end.
///
/// # Errors
/// If the directory is no replica's by now, or cannot be looked at: nobody knows then whether it was promoted durably.
fn behind_promotion(
    dir: &Path,
    outcome: Result<(), coeval::Error>,
    promoted: Promoted,
) -> Result<Before, Failure> {
    let Err(error) = outcome else {
        tracing::info!("the replica is promoted: it is a database of its own from here on");
        return Ok(Before::Promoted(promoted));
    };
    if !Database::is_replica(dir).unwrap_or(false) {
        return Err(Failure::work(format_args!("cannot promote {}", dir.display()), error));
    }
    tracing::error!(%error, "the replica is not promoted: it goes on as one, and may be promoted again");
    Ok(Before::NotPromoted)
}

/// How long a replica is served at least behind an attempt to cut it back, if so long was the one before.
fn pause_behind(outcome: CutBack, pause: Duration) -> Duration {
    match outcome {
        CutBack::Done => Duration::ZERO,
        CutBack::NotDone => (pause * 2).clamp(PARTED_PAUSE_MIN, PARTED_PAUSE_MAX),
    }
}

/// Does this with a directory as soon as nobody has it open any more.
///
/// # Errors
/// That of the last try.
fn once_closed<T, E>(work: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    within(REOPEN_PATIENCE, work)
}

/// Does this again until it goes, for so long.
///
/// # Errors
/// That of the last try.
fn within<T, E>(patience: Duration, mut work: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    let begun = Instant::now();
    loop {
        let done = work();
        if done.is_ok() || begun.elapsed() > patience {
            return done;
        }
        std::thread::sleep(REOPEN_PAUSE);
    }
}

/// Serves the database until it is asked to stop, or there is something to do with the directory that nobody may have open for.
fn serve(arguments: &ServeArguments, before: Before, stop: &mut StopNote) -> Result<Ended, Failure> {
    let mut options = options(arguments)?;
    let run = if matches!(before, Before::Nothing) { Run::First } else { Run::Again };
    let pause = if let Before::Parted { pause } = before { pause } else { Duration::ZERO };
    let Opened { database, following, watch } = open(arguments, before)?;
    let spread = SpreadPlace::default();
    if let Some(dir) = &arguments.dir {
        begin_in(dir, &database, &spread)?;
    }
    let is_writable = following.is_none() && database.engine().store().superseded_by().is_none();
    let names = arguments.synchronous_standby_names.as_ref().filter(|_| is_writable);
    configure(&database, &[("synchronous_standby_names", names)])?;
    configure(&database, &of_followers(arguments))?;
    let is_archived = is_writable || following.is_some();
    let archive = arguments.archive.as_deref().filter(|_| is_archived);
    let archiver = archive.map(|place| archive::begin(place, arguments, (&database, &spread))).transpose()?;
    // Before anybody asks the database: what is spread is not there without it.
    let clustering = cluster::begin(arguments, &database)?;
    clustering.iter().for_each(|clustering| spread.set(clustering.source()));
    if let Some(engine) = &arguments.engine {
        options.session_settings = engine::serve_from(&database, engine, arguments)?;
    }
    let options = fitted_to_open_files(options, arguments);
    let runtime =
        coeval_server::runtime(&options).map_err(|error| Failure::work("cannot start threads", error))?;
    let is_replica = following.is_some();
    let ended = runtime.block_on(async {
        let server = Server::bind(&database, &arguments.listen, options)
            .await
            .map_err(|error| Failure::Work(error.to_string()))?;
        let address = server.address();
        let console = console(&server, arguments, run).await?;
        // Before anybody hears that it listens, and may ask it to stop.
        let signals = stop.listen().map_err(|error| Failure::work("cannot listen to signals", error))?;
        // It goes before the database is closed.
        let _served = say_where(arguments, address);
        eprintln!("Listening on {address}");
        if let Some(address) = server.metrics_address() {
            eprintln!("Figures at http://{address}/metrics");
        }
        let console = console.map(begin_console);
        tokio::spawn(reload_when_asked(database.clone()));
        let mut ended = Ended::Stopped;
        let stop = async {
            ended = match &following {
                None => {
                    signals.asked_to_stop().await;
                    Ended::Stopped
                }
                Some(following) => end_of_replica(signals, &database, following, (address, pause)).await,
            };
        };
        server.run(stop).await;
        if let Some(console) = console {
            console.abort();
        }
        Ok::<_, Failure>(ended)
    })?;
    // All sessions have ended.
    drop(clustering);
    match archiver {
        Some(archiver) if !is_replica => archive::end(archiver),
        archiver => drop(archiver),
    }
    let ended = match &following {
        Some(following) => rather_promoted(ended, following),
        None => ended,
    };
    drop((following, watch));
    end_threads(runtime, LEAVING_PATIENCE);
    Ok(ended)
}

/// Ends the threads of a server whose sessions were told to end. What does not end for so long is left where it is.
fn end_threads(runtime: Runtime, patience: Duration) {
    let begun = Instant::now();
    runtime.shutdown_timeout(patience);
    if begun.elapsed() >= patience {
        tracing::warn!("what a session was doing does not end: it is left, and ends with the program");
    }
}

/// A replica may be promoted while its sessions end for it to be cut back. Others have promised it that, and whoever has asked was told
/// so: it is not to be cut back then.
fn rather_promoted(ended: Ended, following: &replica::Following) -> Ended {
    match (ended, following.promise()) {
        (Ended::Parted { address, .. }, Some(promise)) => {
            Ended::Promoted(Promoted { address, promise, former: following.former.clone() })
        }
        (ended, _) => ended,
    }
}

/// Waits until a replica at this address is not to be served any more, or not as what it is. For `pause` it is not closed to be cut
/// back.
async fn end_of_replica(
    signals: &mut StopSignals,
    database: &Database,
    following: &replica::Following,
    (address, pause): (SocketAddr, Duration),
) -> Ended {
    let promised = async {
        loop {
            database.engine().registry().promotion_asked().await;
            if let Some(promise) = following.promise() {
                break promise;
            }
        }
    };
    let parted = async {
        tokio::time::sleep(pause).await;
        following.parted_from().await
    };
    tokio::select! {
        () = signals.asked_to_stop() => Ended::Stopped,
        promise = promised => {
            tracing::info!("the replica is to be promoted: it does not follow any more, and begins anew");
            Ended::Promoted(Promoted { address, promise, former: following.former.clone() })
        }
        from = parted => {
            tracing::warn!("the replica is to be cut back: it ends its sessions, and begins anew");
            Ended::Parted { address, from }
        }
    }
}

/// Which of the program's servers it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    First,
    /// That of a replica which was promoted, or cut back.
    Again,
}

fn begin_console(console: Console) -> JoinHandle<()> {
    eprintln!("Console at {}", console.url());
    tokio::spawn(console.run())
}

/// The console of this server, if one is asked for.
async fn console(server: &Server, arguments: &ServeArguments, run: Run) -> Result<Option<Console>, Failure> {
    let Some(address) = &arguments.console else { return Ok(None) };
    let address = on_loopback_by_default(address);
    // Beside the database, where its user expects files, and room for them.
    let options = ConsoleOptions { directory: arguments.dir.clone(), ..ConsoleOptions::default() };
    match Console::bind(server.entrance(), &address, options).await {
        Ok(console) => Ok(Some(console)),
        // A database that has just been promoted is wanted more than its console.
        Err(why) if run == Run::Again => {
            tracing::warn!(%why, "the console is not served");
            Ok(None)
        }
        Err(error) => Err(Failure::Work(error.to_string())),
    }
}

/// Ends the program when the standard input ends, as a crash does: nothing that was acknowledged is lost by it.
fn end_with_input() {
    // If it cannot be read, whoever holds the other end cannot be seen to go either.
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    std::process::exit(crate::interrupt::INTERRUPTED);
}

/// Settings of the whole database, by the command line's words.
fn configure(database: &Database, settings: &[(&str, Option<&String>)]) -> Result<(), Failure> {
    for (setting, value) in settings {
        let Some(value) = value else { continue };
        let set = database.session().run(&format!("SET {setting} = '{}'", value.replace('\'', "''")));
        set.map_err(|error| Failure::Usage(format!("--{}: {error}", setting.replace('_', "-"))))?;
    }
    Ok(())
}

/// What those who follow may ask of this machine, whatever that is.
fn of_followers(arguments: &ServeArguments) -> [(&'static str, Option<&String>); 2] {
    [
        ("max_slot_wal_keep_size", arguments.max_slot_wal_keep_size.as_ref()),
        ("wal_sender_timeout", arguments.wal_sender_timeout.as_ref()),
    ]
}

/// What is served. Fields in the order in which they have to end: what works on the database, then that.
struct Opened {
    following: Option<replica::Following>,
    watch: Option<PrimaryWatch>,
    database: Database,
}

fn open(arguments: &ServeArguments, before: Before) -> Result<Opened, Failure> {
    let mut opening = if arguments.salvage { directory::salvaging() } else { directory::options() };
    if let Some(bytes) = arguments.query_memory {
        opening = opening.query_memory(bytes);
    }
    if let Some(bytes) = arguments.data_memory {
        opening = opening.data_memory(bytes as u64);
    }
    opening = opening.transactions_share(arguments.transactions_share);
    // Not by a SET behind the opening, as the keeper may run a checkpoint at once, which would let go of it.
    opening = opening.log_keep_bytes(arguments.wal_keep_size);
    if arguments.without_safe_logging {
        opening = opening.safe_logging(SafeLogging::Off);
    }
    let Some(dir) = &arguments.dir else {
        let opened = opening.in_memory();
        let database = opened.map_err(|error| Failure::work("cannot make a database", error))?;
        return Ok(Opened { following: None, watch: None, database });
    };
    let promoted = match before {
        Before::Promoted(promoted) => Some(promoted),
        Before::Nothing | Before::NotPromoted | Before::Parted { .. } => None,
    };
    if let Some(primary) = arguments.replica_of.as_deref().filter(|_| promoted.is_none()) {
        let (database, following) = replica::open(dir, primary, arguments, opening)?;
        return Ok(Opened { following: Some(following), watch: None, database });
    }
    let database = directory::open_with(dir, opening)?;
    if arguments.salvage {
        eprintln!(
            "{} is served to be read only, as some of it may be damaged. It is no primary: no replica follows it, it promises nothing, and \
             clients that look for one that takes writes go on looking.",
            dir.display()
        );
        return Ok(Opened { following: None, watch: None, database });
    }
    let watch = primary::begin(&database, arguments, promoted)?;
    Ok(Opened { following: None, watch, database })
}

/// What there is to do about the directory of a database that is open.
fn begin_in(dir: &Path, database: &Database, spread: &SpreadPlace) -> Result<(), Failure> {
    warn_of_open_directory(dir);
    // A server that was killed says that it listens; this one does not yet.
    served::forget(dir);
    backups::offer(database, dir, spread)
}

/// Writes into the directory where the server listens, until what this gives is dropped. A database is served that it cannot be
/// written beside.
fn say_where(arguments: &ServeArguments, address: SocketAddr) -> Option<ServedFile> {
    let dir = arguments.dir.as_deref()?;
    let served = Served { process: std::process::id(), user: arguments.user.clone(), address };
    let file = ServedFile::write(dir, &served);
    file.inspect_err(|error| {
        tracing::warn!(%error, "it is not written down where the server listens: coeval backup does not find it");
    })
    .ok()
}

/// Said where a second signal does nothing.
const NOT_HEARD: &str = "it is not heard when the program is asked once more to end";

/// The signals that ask the program to end, from when this is made.
#[derive(Debug)]
struct StopSignals {
    interrupted: Signal,
    terminated: Signal,
}

impl StopSignals {
    /// From here on a signal does not end the program by itself. Within a runtime.
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupted: signal(SignalKind::interrupt())?,
            terminated: signal(SignalKind::terminate())?,
        })
    }

    /// Ready at the next one.
    async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupted.recv() => {}
            _ = self.terminated.recv() => {}
        }
    }

    /// Ready when the program is asked to end; the second time it ends at once.
    async fn asked_to_stop(&mut self) {
        self.asked().await;
        eprintln!("{}", crate::interrupt::STOPPING);
        let then_at_once = |again: Self| again.then(|| std::process::exit(crate::interrupt::INTERRUPTED));
        if let Err(error) = Self::listen().and_then(then_at_once) {
            tracing::warn!(%error, "{NOT_HEARD}");
        }
    }

    /// Does this at the next signal. It is waited for by a thread of its own: whatever takes its time while the program ends, as closing the
    /// database may, the runtime of the server has ended by then, with all that listens there.
    fn then(mut self, act: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let waiting = std::thread::Builder::new().name("coeval-signals".to_owned()).spawn(move || {
            match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => {
                    runtime.block_on(self.asked());
                    act();
                }
                Err(error) => tracing::warn!(%error, "{NOT_HEARD}"),
            }
        });
        waiting.map(drop)
    }
}

/// Hears of signals from the first run of a server on, also when that has ended and the next one has not begun: while sessions end for
/// a replica to be promoted or cut back, while that is done, and while the database is opened again, which may take long. Nobody else
/// waits for them then, and the program would not end.
#[derive(Debug, Default)]
struct StopNote(Option<(Runtime, StopSignals)>);

/// A signal that has come is found at once.
const STOP_LOOK: Duration = Duration::from_millis(50);

impl StopNote {
    /// What the next run of a server listens to, with all that has come since the last one. Within its runtime.
    fn listen(&mut self) -> std::io::Result<&mut StopSignals> {
        if self.0.is_none() {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let entered = runtime.enter();
            let signals = StopSignals::listen();
            drop(entered);
            match signals {
                Ok(signals) => self.0 = Some((runtime, signals)),
                Err(error) => {
                    // It must not be waited for here.
                    runtime.shutdown_background();
                    return Err(error);
                }
            }
        }
        let (_, signals) = self.0.as_mut().expect("it was made above");
        Ok(signals)
    }

    /// Whether the program was asked to end since the first run began to listen. Not within a runtime.
    fn is_asked(&mut self) -> bool {
        let Some((runtime, signals)) = &mut self.0 else { return false };
        runtime.block_on(async { tokio::time::timeout(STOP_LOOK, signals.asked()).await.is_ok() })
    }
}

/// An address to listen on: a port alone is one of the loopback.
fn on_loopback_by_default(address: &str) -> String {
    let port = address.strip_prefix(':').unwrap_or(address);
    if port.parse::<u16>().is_ok() { format!("127.0.0.1:{port}") } else { address.to_owned() }
}

fn options(arguments: &ServeArguments) -> Result<ServerOptions, Failure> {
    let mut roles = Roles::new();
    if let (Some(user), Some(file)) = (&arguments.user, &arguments.password_file) {
        let failed = |error| Failure::work(format_args!("cannot use {}", file.display()), error);
        roles = roles.with(user, &secret_in(file)?).map_err(failed)?;
    }
    let certificate = match (&arguments.tls_cert, &arguments.tls_key) {
        (Some(chain), Some(key)) => Some(Certificate {
            chain: chain.clone(),
            key: key.clone(),
            client_authorities: arguments.tls_client_ca.clone(),
        }),
        _ => None,
    };
    let reserved = arguments.superuser_reserved_connections;
    if reserved.is_some_and(|reserved| reserved >= arguments.max_connections) {
        let message = "--superuser-reserved-connections leaves nobody else one of --max-connections";
        return Err(Failure::Usage(message.to_owned()));
    }
    let standard = ServerOptions::default();
    Ok(ServerOptions {
        connections_max: arguments.max_connections,
        superuser_connections: reserved.unwrap_or(standard.superuser_connections),
        roles,
        rules_file: arguments.hba.clone(),
        own_rules_file: arguments.dir.as_ref().map(|dir| dir.join(RULES_FILE)),
        mock_secret_file: arguments.dir.as_ref().map(|dir| dir.join(MOCK_SECRET_FILE)),
        certificate,
        passwords_per_second: arguments.passwords_per_second,
        unsent_bytes_max: arguments.unsent_memory.unwrap_or(standard.unsent_bytes_max),
        received_bytes_max: arguments.received_memory.unwrap_or(standard.received_bytes_max),
        opening_timeout: Duration::from_secs_f64(arguments.authentication_timeout),
        stopping_timeout: Duration::from_secs_f64(arguments.stop_seconds),
        metrics_address: arguments.metrics.as_deref().map(on_loopback_by_default),
        metrics_token: arguments.metrics_token_file.as_deref().map(secret_in).transpose()?,
        slow_statement: arguments.slow_milliseconds.map(Duration::from_millis),
        ..standard
    })
}

/// Open files that a console may have: browsers' connections, the other ends of its own, results.
const CONSOLE_FILES: u64 = 1_024;

/// The same options, with no more connections than the system allows this process open files.
fn fitted_to_open_files(options: ServerOptions, arguments: &ServeArguments) -> ServerOptions {
    let limit = match coeval_server::raise_open_files_limit() {
        Ok(Some(limit)) => limit,
        Ok(None) => return options,
        Err(error) => {
            tracing::warn!(%error, "it cannot be found out how many files may be open");
            return options;
        }
    };
    let of_console = arguments.console.as_ref().map_or(0, |_| CONSOLE_FILES.min(limit / 4));
    let limit = limit - of_console;
    let asked = options.connections_max;
    let fitted = options.fitted_to(limit);
    let sessions = fitted.connections_max;
    if sessions < asked {
        tracing::warn!(
            limit,
            sessions,
            "the limit of open files allows fewer sessions than asked for (ulimit -Hn)"
        );
    }
    fitted
}

/// Says so if other users of the machine can look into a database directory; new files in it are not for them.
fn warn_of_open_directory(dir: &Path) {
    let mode = std::fs::metadata(dir).map_or(0, |attributes| attributes.permissions().mode() & 0o777);
    if mode & 0o027 != 0 {
        let dir = dir.display();
        tracing::warn!(%dir, "others can look into the directory (mode {mode:03o}): chmod -R go= takes that away");
    }
}

/// Has the rules read again whenever the process gets SIGHUP.
async fn reload_when_asked(database: Database) {
    let Ok(mut asked) = signal(SignalKind::hangup()) else { return };
    while asked.recv().await.is_some() {
        database.engine().registry().ask_to_reload();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// To break it: close it again as soon as it has found that its log has parted. It ends its sessions again and again then, as long
    /// as the other machine answers only while it runs.
    #[test]
    fn a_replica_that_cannot_be_cut_back_is_closed_for_it_ever_more_seldom() {
        let mut pause = Duration::ZERO;
        let mut pauses = Vec::new();
        for _ in 0..9 {
            pause = pause_behind(CutBack::NotDone, pause);
            pauses.push(pause.as_secs());
        }
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 320, 600, 600]);
        assert_eq!(pause_behind(CutBack::Done, pause), Duration::ZERO);
    }

    /// To break it: have the error end the program. A full disk, or a file that cannot be removed, did so behind the promises, and the
    /// machine with the longest log was gone.
    #[test]
    fn a_replica_that_cannot_be_promoted_is_served_on() {
        let directory = tempfile::tempdir().unwrap();
        let promoted = || Promoted {
            address: "127.0.0.1:5432".parse().unwrap(),
            promise: Promise::asked_for(coeval::Timeline::new(2)),
            former: None,
        };
        let behind = |outcome| behind_promotion(directory.path(), outcome, promoted());
        let failed = || Err(coeval::Error::Store(coeval::StoreError::NoDirectory));
        assert!(matches!(behind(Ok(())), Ok(Before::Promoted(_))));
        assert!(behind(failed()).is_err(), "it is no replica's directory");
        std::fs::write(directory.path().join("follower"), "").unwrap();
        assert!(matches!(behind(failed()), Ok(Before::NotPromoted)));
    }

    /// To break it: have only the runs of the server listen, or each of them only from when it begins to: the program goes on then whoever
    /// asked it to end, as one did while a promoted database was opened. Or have a task of the server's runtime wait for the second signal:
    /// nobody hears it while the database is closed.
    ///
    /// One test, as signals are of the process.
    #[test]
    fn who_asks_for_the_end_between_two_runs_or_behind_the_last_one_is_heard() {
        const PATIENCE: Duration = Duration::from_secs(60);
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let ask = || {
            let process = std::process::id().to_string();
            let killed = std::process::Command::new("kill").args(["-TERM", &process]).status();
            assert!(killed.unwrap().success());
        };
        let mut stop = StopNote::default();
        assert!(!stop.is_asked(), "no server has run yet");
        runtime().block_on(async { stop.listen().map(|_| ()) }).unwrap();
        assert!(!stop.is_asked());
        ask();
        assert!(stop.is_asked());
        // While the next run opens the database.
        ask();
        let heard = runtime().block_on(async {
            let signals = stop.listen().unwrap();
            tokio::time::timeout(PATIENCE, signals.asked()).await
        });
        assert!(heard.is_ok());
        // While the database is closed.
        let again = runtime().block_on(async { StopSignals::listen() }).unwrap();
        let (hears, heard) = std::sync::mpsc::channel();
        again.then(move || hears.send(()).unwrap()).unwrap();
        ask();
        heard.recv_timeout(PATIENCE).unwrap();
    }

    /// To break it: drop the runtime. A server that was to stop went on as long as a session read a pipe that nobody wrote into.
    #[test]
    fn a_server_ends_whatever_its_sessions_do_that_does_not_end() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (_never, waiting) = std::sync::mpsc::channel::<()>();
        let (begins, has_begun) = std::sync::mpsc::channel();
        runtime.spawn(async move {
            tokio::task::block_in_place(|| {
                begins.send(()).unwrap();
                waiting.recv().unwrap_err()
            })
        });
        has_begun.recv().unwrap();
        let begun = Instant::now();
        end_threads(runtime, Duration::from_millis(100));
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    }

    #[test]
    fn a_port_alone_is_one_of_the_loopback() {
        assert_eq!(on_loopback_by_default("9187"), "127.0.0.1:9187");
        assert_eq!(on_loopback_by_default(":9187"), "127.0.0.1:9187");
        assert_eq!(on_loopback_by_default("0.0.0.0:9187"), "0.0.0.0:9187");
    }
}
