// SPDX-License-Identifier: Apache-2.0
//! How much memory there is, the machine's or what the control groups leave that this process is in; and what it has of it.

use std::path::Path;

/// If the machine does not say how much memory it has.
const BYTES_ASSUMED: usize = 4 << 30;

/// Where control groups are, by version and by how systems mount them, and the file of a group with its limit.
const LIMITS: [(Version, &str, &str); 3] = [
    (Version::Two, "/sys/fs/cgroup", "memory.max"),
    (Version::Two, "/sys/fs/cgroup/unified", "memory.max"),
    (Version::One, "/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
];

/// The version of a hierarchy of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Bytes of the machine's memory, or of what the control groups leave that this process is in.
#[must_use]
pub fn machine_memory() -> usize {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let meminfo = read(Path::new("/proc/meminfo")).unwrap_or_default();
    let kibibytes = meminfo.lines().find_map(|line| {
        let rest = line.strip_prefix("MemTotal:")?.trim();
        rest.strip_suffix("kB")?.trim().parse::<usize>().ok()
    });
    let machine = kibibytes.map_or(BYTES_ASSUMED, |kibibytes| kibibytes.saturating_mul(1024));
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    machine.min(group_limit(&groups, read))
}

/// Bytes of memory that this process has of its own, without files that are mapped: what counts against the limit and cannot
/// be taken from it. `None` where the system does not say. Takes some 20 microseconds.
#[must_use]
pub fn process_memory() -> Option<usize> {
    own_memory(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// What `/proc/self/status` says of it.
fn own_memory(status: &str) -> Option<usize> {
    let kibibytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()
    };
    Some((kibibytes("RssAnon")? + kibibytes("RssShmem").unwrap_or(0)).saturating_mul(1024))
}

/// The least limit of the groups that `/proc/self/cgroup` names and of all above them; the largest number without one. The
/// root counts too: seen from within a container it is the container's.
fn group_limit(groups: &str, read: impl Fn(&Path) -> Option<String>) -> usize {
    let mut least = usize::MAX;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else { continue };
        let version = match controllers {
            "" => Version::Two,
            _ if controllers.split(',').any(|controller| controller == "memory") => Version::One,
            _ => continue,
        };
        for (_, base, file) in LIMITS.iter().filter(|limit| limit.0 == version) {
            for above in Path::new(group.trim_start_matches('/')).ancestors() {
                let limit = read(&Path::new(base).join(above).join(file));
                least = least.min(limit.and_then(|text| text.trim().parse().ok()).unwrap_or(usize::MAX));
            }
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_the_groups_around_a_process_counts() {
        let of = |groups: &str, files: &[(&str, &str)]| {
            group_limit(groups, |path| {
                let found = files.iter().find(|(name, _)| Path::new(name) == path);
                found.map(|(_, text)| (*text).to_owned())
            })
        };
        let service = "0::/system.slice/coeval.service\n";
        let own = ("/sys/fs/cgroup/system.slice/coeval.service/memory.max", "2147483648\n");
        assert_eq!(of(service, &[own]), 2 << 30, "a service has a limit of its own");
        assert_eq!(of(service, &[own, ("/sys/fs/cgroup/system.slice/memory.max", "1024\n")]), 1024);
        assert_eq!(of("0::/\n", &[("/sys/fs/cgroup/memory.max", "4096\n")]), 4096, "a container is the root");
        assert_eq!(of(service, &[("/sys/fs/cgroup/memory.max", "max\n")]), usize::MAX);
        let first = "5:cpu,cpuacct:/a\n4:memory:/a/b\n0::/\n";
        assert_eq!(of(first, &[("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "8192\n")]), 8192);
        assert_eq!(of("nonsense\n::\n", &[]), usize::MAX);
    }

    #[test]
    fn a_process_has_what_is_not_mapped_from_files() {
        let status = "Name:\tcoeval\nVmRSS:\t    9000 kB\nRssAnon:\t    5000 kB\nRssFile:\t    3996 kB\nRssShmem:\t       4 kB\n";
        assert_eq!(own_memory(status), Some(5004 << 10));
        assert_eq!(own_memory("Name:\tcoeval\n"), None);
    }
}
