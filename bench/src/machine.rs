// SPDX-License-Identifier: Apache-2.0
//! The machine under a run: what it is, who else used it meanwhile, and how fast its disk syncs.

use crate::error::BenchError;
use serde::Serialize;
use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// What the machine is.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Model name of the first processor.
    pub cpu: String,
    /// Cores this process may use.
    pub cores: usize,
    /// Memory in GiB.
    pub memory_gib: f64,
    /// Kernel name and release.
    pub kernel: String,
}

impl Machine {
    /// This machine; what cannot be found out is empty or zero.
    #[must_use]
    pub fn here() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kib: f64 = field(&meminfo, "MemTotal")
            .and_then(|value| value.split_whitespace().next())
            .and_then(|number| number.parse().ok())
            .unwrap_or(0.0);
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            cpu: field(&cpuinfo, "model name").unwrap_or_default().to_owned(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_gib: (kib / 1_048_576.0 * 10.0).round() / 10.0,
            kernel: format!("Linux {}", release.trim()),
        }
    }
}

/// The value behind the first `name ...: value` line.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .find(|line| line.starts_with(name))
        .and_then(|line| line.split_once(':'))
        .map(|(_, value)| value.trim())
}

/// The commit of the checkout the run was started in, with `-dirty` behind it if tracked files differ;
/// `unknown` outside of one.
#[must_use]
pub(crate) fn commit() -> String {
    Command::new("git")
        .args(["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"])
        .output()
        .ok()
        .filter(|output| output.status.success())
        .map_or_else(
            || "unknown".to_owned(),
            |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        )
}

/// Linux counts processor time for user space in hundredths of a second on every architecture.
const TICKS_PER_S: f64 = 100.0;

/// Which processes belong to a run.
#[derive(Clone, Copy)]
enum Belonging {
    /// This one.
    Own,
    /// This one, and all that it has started.
    OwnWithChildren,
    /// This one, and a server with the processes that it started.
    OwnAndServer(ProcessId),
    /// This one, and a server that runs who knows where.
    Unknown,
}

/// The number of a process of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessId(pub u32);

/// Measures how many cores other processes used while a run measured something.
pub(crate) struct CpuWatch {
    started: Instant,
    belonging: Belonging,
    machine_busy_ticks: u64,
    own_ticks: u64,
    server_ticks: u64,
}

impl CpuWatch {
    /// Begins to watch a run in this process.
    #[must_use]
    pub(crate) fn start() -> Self {
        Self::of(Belonging::Own)
    }

    /// Begins to watch a run in this process and in servers that it has started.
    #[must_use]
    pub(crate) fn with_children() -> Self {
        Self::of(Belonging::OwnWithChildren)
    }

    /// Begins to watch a run that a server takes part in; without its number nobody can say what others did.
    #[must_use]
    pub(crate) fn beside(server: Option<ProcessId>) -> Self {
        Self::of(server.map_or(Belonging::Unknown, Belonging::OwnAndServer))
    }

    fn of(belonging: Belonging) -> Self {
        Self {
            started: Instant::now(),
            belonging,
            machine_busy_ticks: machine_busy_ticks(),
            own_ticks: own_ticks(belonging),
            server_ticks: server_ticks(belonging),
        }
    }

    /// Cores used on average since the start, to two digits.
    #[must_use]
    pub(crate) fn usage(&self) -> CpuUsage {
        let busy = machine_busy_ticks().saturating_sub(self.machine_busy_ticks);
        let own = own_ticks(self.belonging).saturating_sub(self.own_ticks);
        let server = server_ticks(self.belonging).saturating_sub(self.server_ticks);
        let seconds = self.started.elapsed().as_secs_f64().max(1.0 / TICKS_PER_S);
        let cores = |ticks: f64| (ticks / TICKS_PER_S / seconds * 100.0).round() / 100.0;
        let others = busy.saturating_sub(own + server);
        let (server, foreign) = match self.belonging {
            Belonging::Own | Belonging::OwnWithChildren => (None, Some(others)),
            Belonging::OwnAndServer(_) => (Some(server), Some(others)),
            Belonging::Unknown => (None, None),
        };
        CpuUsage {
            own: cores(own as f64),
            server: server.map(|ticks| cores(ticks as f64)),
            foreign: foreign.map(|ticks| cores(ticks as f64)),
        }
    }

    /// Cores that others used on average since the start; `None` if nobody can say.
    #[must_use]
    pub(crate) fn foreign_cores(&self) -> Option<f64> {
        self.usage().foreign
    }
}

/// Cores in use, on average over a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuUsage {
    /// By this process.
    pub(crate) own: f64,
    /// By the server, if there is one that is known.
    pub(crate) server: Option<f64>,
    /// By others, if anybody can say.
    pub(crate) foreign: Option<f64>,
}

fn server_ticks(belonging: Belonging) -> u64 {
    match belonging {
        Belonging::OwnAndServer(process) => tree_ticks(process),
        Belonging::Own | Belonging::OwnWithChildren | Belonging::Unknown => 0,
    }
}

/// Ticks of a process, of those it started, of those they started, and of all their children that have ended.
fn tree_ticks(root: ProcessId) -> u64 {
    let mut processes: HashMap<ProcessId, Vec<(ProcessId, u64)>> = HashMap::new();
    let stats = fs::read_dir("/proc").into_iter().flatten().flatten();
    for stat in stats.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok()) {
        if let Some((process, parent)) = ids_of(&stat) {
            processes.entry(parent).or_default().push((process, ticks_of(&stat)));
        }
    }
    let own = fs::read_to_string(format!("/proc/{}/stat", root.0)).unwrap_or_default();
    let mut ticks = ticks_of(&own);
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        for &(child, of_child) in processes.get(&parent).into_iter().flatten() {
            ticks += of_child;
            parents.push(child);
        }
    }
    ticks
}

/// The numbers of a process and of its parent: the first field of the line, and the second behind the name.
fn ids_of(stat: &str) -> Option<(ProcessId, ProcessId)> {
    let process = stat.split_whitespace().next()?.parse().ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let parent = fields.split_whitespace().nth(1)?.parse().ok()?;
    Some((ProcessId(process), ProcessId(parent)))
}

/// Ticks that all cores were busy since boot: everything but idle and waiting for disks.
fn machine_busy_ticks() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    busy_of(stat.lines().next().unwrap_or_default())
}

/// `cpu user nice system idle iowait irq softirq steal guest guest_nice`; guests are in user and nice already.
fn busy_of(line: &str) -> u64 {
    let ticks: Vec<u64> = line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    [0, 1, 2, 5, 6, 7].iter().filter_map(|&place| ticks.get(place)).sum()
}

/// Ticks of this process and its children that have ended; of those that run as well, if they belong to it.
fn own_ticks(belonging: Belonging) -> u64 {
    if matches!(belonging, Belonging::OwnWithChildren) {
        return tree_ticks(ProcessId(std::process::id()));
    }
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    ticks_of(&stat)
}

/// The name in parentheses may hold blanks, so fields count from behind it: utime, stime, cutime and cstime are
/// the 14th to 17th of the line, the 12th to 15th behind the name.
fn ticks_of(stat: &str) -> u64 {
    let Some((_, fields)) = stat.rsplit_once(')') else { return 0 };
    fields.split_whitespace().skip(11).take(4).filter_map(|word| word.parse::<u64>().ok()).sum()
}

/// Processor time that a process has had, without those it started; nothing where the system does not tell.
#[must_use]
pub(crate) fn process_cpu(process: ProcessId) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.0)).unwrap_or_default();
    Duration::from_secs_f64(ticks_of(&stat) as f64 / TICKS_PER_S)
}

/// Processor time that this thread has had; nothing where the system does not tell.
#[must_use]
pub(crate) fn thread_cpu() -> Duration {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = stat.split_whitespace().next().and_then(|word| word.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// How often this thread has left its processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Switches {
    /// Because it waited for something.
    pub(crate) waits: u64,
    /// Because the system gave the processor to another thread.
    pub(crate) preemptions: u64,
}

/// How often this thread has left its processor so far; nothing where the system does not tell.
#[must_use]
pub(crate) fn thread_switches() -> Switches {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    switches_of(&status)
}

fn switches_of(status: &str) -> Switches {
    let count = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
    };
    Switches { waits: count("voluntary_ctxt_switches"), preemptions: count("nonvoluntary_ctxt_switches") }
}

/// How long `fdatasync` takes in a directory.
#[derive(Clone, Copy, Debug, Default)]
pub struct SyncTimes {
    /// Median, microseconds.
    pub p50_us: f64,
    /// 90th percentile, microseconds.
    pub p90_us: f64,
    /// Mean, microseconds.
    pub mean_us: f64,
}

/// Appends of about the size of a commit batch, each synced.
const SYNC_PROBES: usize = 200;
const SYNC_PROBE_BYTES: usize = 4096;

/// Measures `fdatasync` after small appends to a file in `directory`, which is removed again.
///
/// # Errors
/// If the file cannot be made, written or synced.
pub(crate) fn measure_sync(directory: &Path) -> Result<SyncTimes, BenchError> {
    let path = directory.join("coeval-bench-sync-probe");
    let result = probe_sync(&path).map_err(|source| BenchError::file(&path, source));
    // A probe that failed half-way may leave nothing to remove.
    let _ = fs::remove_file(&path);
    result
}

fn probe_sync(path: &Path) -> Result<SyncTimes, std::io::Error> {
    let mut file = fs::File::create(path)?;
    let block = [0x5a; SYNC_PROBE_BYTES];
    let mut times_us = Vec::with_capacity(SYNC_PROBES);
    for _ in 0..SYNC_PROBES {
        file.write_all(&block)?;
        let started = Instant::now();
        file.sync_data()?;
        times_us.push(started.elapsed().as_secs_f64() * 1e6);
    }
    times_us.sort_by(f64::total_cmp);
    let mean_us = times_us.iter().sum::<f64>() / SYNC_PROBES as f64;
    Ok(SyncTimes { p50_us: times_us[SYNC_PROBES / 2], p90_us: times_us[SYNC_PROBES * 9 / 10], mean_us })
}

/// Memory that this process has resident, in bytes.
#[must_use]
pub(crate) fn resident_bytes() -> u64 {
    resident_bytes_of(ProcessId(std::process::id()))
}

/// Memory that a process has resident, in bytes.
#[must_use]
pub(crate) fn resident_bytes_of(process: ProcessId) -> u64 {
    status_number(process, "VmRSS") * 1024
}

/// Threads that a process has.
#[must_use]
pub(crate) fn threads_of(process: ProcessId) -> u64 {
    status_number(process, "Threads")
}

/// A number that the system tells of a process; 0 if it does not.
fn status_number(process: ProcessId, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.0)).unwrap_or_default();
    let number = field(&status, name).and_then(|value| value.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// How many files this process may have open; `None` if there is no limit, or nobody says.
#[must_use]
pub(crate) fn open_files_max() -> Option<u64> {
    open_files_of(&fs::read_to_string("/proc/self/limits").unwrap_or_default())
}

/// `Max open files  soft  hard  files`
fn open_files_of(limits: &str) -> Option<u64> {
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    limit.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_sleeps_has_left_its_processor() {
        let before = thread_switches();
        std::thread::sleep(Duration::from_millis(1));
        assert!(thread_switches().waits > before.waits);
        let status = "Threads:\t1\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t12\n";
        assert_eq!(switches_of(status), Switches { waits: 7, preemptions: 12 });
    }

    #[test]
    fn busy_time_leaves_out_idle_and_waiting() {
        assert_eq!(busy_of("cpu  10 20 30 1000 2000 1 2 3 99 99"), 66);
    }

    #[test]
    fn own_time_is_found_behind_a_name_with_blanks() {
        let stat = "42 (a (odd) name) S 1 1 1 0 -1 0 0 0 0 0 7 8 9 10 20 0 1 0";
        assert_eq!(ticks_of(stat), 34);
    }

    #[test]
    fn a_process_names_its_parent() {
        let stat = "42 (a (odd) name) S 7 1 1 0 -1 0 0 0 0 0 7 8 9 10 20 0 1 0";
        assert_eq!(ids_of(stat), Some((ProcessId(42), ProcessId(7))));
        assert_eq!(ids_of("nonsense"), None);
    }

    #[test]
    fn the_time_of_a_process_and_of_those_it_started_is_found() {
        let parent = ProcessId(std::process::id());
        let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let of_child = ProcessId(child.id());
        let started = Instant::now();
        while tree_ticks(of_child) < 5 && started.elapsed().as_secs() < 30 {
            std::thread::yield_now();
        }
        let (both, alone) = (tree_ticks(parent), tree_ticks(of_child));
        assert!(process_cpu(of_child) >= Duration::from_millis(50));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(alone >= 5 && both >= alone, "{both} ticks with a child that had {alone}");
    }

    #[test]
    fn a_thread_has_had_the_time_that_it_used() {
        let (started, before) = (Instant::now(), thread_cpu());
        while thread_cpu() < before + Duration::from_millis(20) && started.elapsed().as_secs() < 30 {}
        assert!(thread_cpu() >= before + Duration::from_millis(20));
        let of_another = std::thread::spawn(thread_cpu).join().unwrap();
        assert!(of_another < Duration::from_millis(20), "another thread's time is its own");
    }

    #[test]
    fn without_the_server_nobody_knows_what_others_did() {
        assert_eq!(CpuWatch::beside(None).usage().foreign, None);
        assert!(CpuWatch::start().usage().foreign.is_some());
    }

    #[test]
    fn the_machine_has_cores_and_memory() {
        let machine = Machine::here();
        assert!(machine.cores > 0 && machine.memory_gib > 0.0);
        assert!(resident_bytes() > 0 && threads_of(ProcessId(std::process::id())) > 0);
    }

    #[test]
    fn the_limit_of_open_files_is_the_one_that_counts() {
        let limits =
            "Limit           Soft Limit  Hard Limit  Units\nMax open files  1024        524288      files\n";
        assert_eq!(open_files_of(limits), Some(1024));
        assert_eq!(open_files_of("Max open files  unlimited  unlimited  files\n"), None);
        assert!(open_files_max().is_none_or(|limit| limit > 2));
    }

    #[test]
    fn syncing_takes_time_and_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let times = measure_sync(directory.path()).unwrap();
        assert!(times.p50_us > 0.0 && times.p50_us <= times.p90_us);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
