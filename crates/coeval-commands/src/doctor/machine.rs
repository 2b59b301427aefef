// SPDX-License-Identifier: Apache-2.0
//! Processors, memory, open files.

use super::{Finding, Verdict};
use crate::readable::grouped;
use coeval::QUERY_MEMORY_MIN;

/// A server of a thousand connections has room for them, and for the files of its database.
const OPEN_FILES_WANTED: u64 = 4_096;

/// Memory below which a database of any size is slow.
const MEMORY_WANTED: u64 = 1 << 30;

pub(super) fn findings() -> Vec<Finding> {
    vec![processors(), memory(), open_files()]
}

fn processors() -> Finding {
    match std::thread::available_parallelism() {
        Ok(count) => Finding::good("processors", format!("{count} that this process may use")),
        Err(error) => Finding::good("processors", format!("unknown: {error}")),
    }
}

fn memory() -> Finding {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let installed = kibibytes(&read("/proc/meminfo"), "MemTotal:").map(|kibibytes| kibibytes << 10);
    // A container's limit; `max` is none.
    let limit = read("/sys/fs/cgroup/memory.max").trim().parse().ok();
    judged_memory(installed, limit)
}

/// The figure of a line of `/proc/meminfo`.
fn kibibytes(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

fn judged_memory(installed: Option<u64>, limit: Option<u64>) -> Finding {
    let mebibytes = |bytes: u64| format!("{} MiB", grouped(bytes >> 20));
    let limit = limit.filter(|limit| installed.is_none_or(|installed| *limit < installed));
    let (available, found) = match (installed, limit) {
        (Some(installed), Some(limit)) => {
            (limit, format!("{} of {} (a limit of this container)", mebibytes(limit), mebibytes(installed)))
        }
        (Some(bytes), None) | (None, Some(bytes)) => (bytes, mebibytes(bytes)),
        (None, None) => return Finding::good("memory", "the system does not say how much there is"),
    };
    let finding = Finding::good("memory", found);
    if available < MEMORY_WANTED {
        let advice = format!(
            "Give queries and data less than that: --query-memory, at least {}, and --data-memory.",
            mebibytes(QUERY_MEMORY_MIN as u64)
        );
        return finding.with(Verdict::Warning, advice);
    }
    finding
}

fn open_files() -> Finding {
    match coeval_server::raise_open_files_limit() {
        Ok(allowed) => judged_open_files(allowed),
        Err(error) => Finding::good("open files", format!("unknown: {error}")),
    }
}

fn judged_open_files(allowed: Option<u64>) -> Finding {
    match allowed {
        None => Finding::good("open files", "no limit"),
        Some(allowed) if allowed >= OPEN_FILES_WANTED => {
            Finding::good("open files", format!("up to {}", grouped(allowed)))
        }
        Some(allowed) => Finding::good("open files", format!("up to {}", grouped(allowed))).with(
            Verdict::Warning,
            "A server takes fewer connections then. Raise the hard limit: ulimit -Hn, LimitNOFILE= of systemd.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_container_may_use_counts() {
        let gibibytes = |count: u64| Some(count << 30);
        assert_eq!(judged_memory(gibibytes(16), None).found, "16,384 MiB");
        let limited = judged_memory(gibibytes(16), Some(512 << 20));
        assert_eq!(limited.verdict, Verdict::Warning);
        assert!(limited.found.starts_with("512 MiB of 16,384 MiB"), "{}", limited.found);
        // A limit above what is there is none.
        assert_eq!(judged_memory(gibibytes(16), gibibytes(32)).found, "16,384 MiB");
        assert_eq!(kibibytes("MemTotal:       24 kB\nMemFree: 5 kB\n", "MemFree:"), Some(5));
    }

    #[test]
    fn few_open_files_are_a_warning() {
        assert_eq!(judged_open_files(Some(1_024)).verdict, Verdict::Warning);
        assert_eq!(judged_open_files(Some(1 << 20)).verdict, Verdict::Good);
        assert_eq!(judged_open_files(None).verdict, Verdict::Good);
    }
}
