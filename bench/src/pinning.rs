// SPDX-License-Identifier: Apache-2.0
//! Processes and threads that keep to cores, by the program `taskset` of util-linux.

use crate::error::BenchError;
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const TASKSET: &str = "taskset";

/// Some cores, by their numbers, one or more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cores(Vec<usize>);

impl Cores {
    /// Those that this process may use.
    ///
    /// # Errors
    /// If the system does not say, as others than Linux, or `taskset` is not there.
    pub(crate) fn allowed() -> Result<Self, BenchError> {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mut version = Command::new(TASKSET);
        version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        let has_taskset = version.status().is_ok_and(|status| status.success());
        match allowed_of(&status).filter(|_| has_taskset) {
            Some(cores) => Ok(Self(cores)),
            None => {
                let message = "servers are kept on cores of their own by taskset of util-linux, on Linux alone: it is not here";
                Err(BenchError::Options(message.to_owned()))
            }
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The one at this place; behind the last comes the first again.
    pub(crate) fn one(&self, place: usize) -> Self {
        Self(vec![self.0[place % self.0.len()]])
    }

    /// So many of them, or all.
    pub(crate) fn first(&self, count: usize) -> Self {
        Self(self.0.iter().copied().take(count.max(1)).collect())
    }

    /// A command that runs a program on these cores alone, whose arguments follow. A server there has a thread for each of them.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(TASKSET);
        command.arg("-c").arg(self.to_string()).arg(program);
        command
    }

    /// Keeps this thread on these cores from now on, with the threads and processes that it starts.
    ///
    /// # Errors
    /// If the system does not let it.
    pub(crate) fn keep_this_thread(&self) -> Result<(), BenchError> {
        let path = Path::new("/proc/thread-self");
        let thread = fs::read_link(path).map_err(|source| BenchError::file(path, source))?;
        let number = thread.file_name().unwrap_or_default();
        let output = Command::new(TASKSET).arg("-pc").arg(self.to_string()).arg(number).output();
        match output.map_err(|source| BenchError::file(TASKSET, source))? {
            output if output.status.success() => Ok(()),
            output => {
                let said = String::from_utf8_lossy(&output.stderr);
                Err(BenchError::Answer(format!("a thread is not kept on core {self}: {}", said.trim())))
            }
        }
    }

    /// Does something on a thread that keeps to these cores.
    ///
    /// # Errors
    /// As [`keep_this_thread`](Self::keep_this_thread), and those of the work.
    pub(crate) fn run<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, BenchError> + Send,
    ) -> Result<T, BenchError> {
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                self.keep_this_thread()?;
                work()
            });
            worker.join().expect("the work does not panic")
        })
    }
}

/// As `taskset` reads them.
impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(usize::to_string).collect();
        f.write_str(&numbers.join(","))
    }
}

/// The cores in what the system says of a process: `Cpus_allowed_list: 0-2,5`.
fn allowed_of(status: &str) -> Option<Vec<usize>> {
    let listed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let mut cores = Vec::new();
    for range in listed.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        cores.extend(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?);
    }
    (!cores.is_empty()).then_some(cores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_read_as_the_system_lists_them() {
        let of = |listed: &str| allowed_of(&format!("Threads:\t1\nCpus_allowed_list:\t{listed}\n"));
        assert_eq!(of("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!(of("7"), Some(vec![7]));
        assert_eq!(of("x"), None);
        assert_eq!(allowed_of("Threads:\t1\n"), None);
        let cores = Cores(vec![0, 1, 5]);
        assert_eq!(
            (cores.one(4).to_string(), cores.first(2).to_string()),
            ("1".to_owned(), "0,1".to_owned())
        );
    }

    /// To break it: keep the process in place of the thread.
    #[test]
    fn a_thread_keeps_to_its_core_and_others_do_not() {
        let Ok(cores) = Cores::allowed() else { return };
        let own = || {
            let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
            allowed_of(&status).expect("the system says it")
        };
        let kept = cores.one(0).run(|| Ok(own())).unwrap();
        assert_eq!((kept.len(), own()), (1, cores.0.clone()));
        assert_eq!(kept, cores.one(0).0);
    }
}
