// SPDX-License-Identifier: Apache-2.0
//! `coeval doctor`: what this machine and a directory on it give a database, and what to set.

mod clock;
mod disk;
mod machine;

use crate::arguments::DoctorArguments;
use crate::failure::Failure;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};

/// How good what was found is for a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Good,
    /// It works, and there is something to know about it.
    Note,
    /// Data, or whoever uses it, will suffer from it.
    Warning,
    /// No database can be kept here.
    Problem,
}

impl Verdict {
    fn mark(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// Something that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    /// What was looked at.
    about: &'static str,
    verdict: Verdict,
    /// What is there.
    found: String,
    /// What that means, and what to do, if there is anything.
    advice: Option<String>,
}

impl Finding {
    fn good(about: &'static str, found: impl Into<String>) -> Self {
        Self { about, verdict: Verdict::Good, found: found.into(), advice: None }
    }

    fn with(self, verdict: Verdict, advice: impl Into<String>) -> Self {
        Self { verdict, advice: Some(advice.into()), ..self }
    }
}

/// Looks, and says what it found. Nothing is left behind in the directory.
///
/// # Errors
/// If no database can be kept in the directory, which has been said.
pub(crate) fn run(arguments: &DoctorArguments) -> Result<(), Failure> {
    let wanted = arguments.dir.as_deref().unwrap_or(Path::new("."));
    let dir = existing(wanted);
    let mut findings = machine::findings();
    findings.extend(disk::findings(&dir));
    findings.push(clock::finding());
    print(&title(wanted, &dir), &findings)?;
    let worst = findings.iter().any(|finding| finding.verdict == Verdict::Problem);
    if worst { Err(Failure::Said) } else { Ok(()) }
}

/// The directory, or the nearest one above it that is there: the database is made there.
fn existing(dir: &Path) -> PathBuf {
    let absolute = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    absolute.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/")).to_owned()
}

/// What is looked at: the directory, or where it would be made.
fn title(wanted: &Path, dir: &Path) -> String {
    if wanted.is_dir() {
        return format!("{} for a database", dir.display());
    }
    format!("{} for a database in {}, which is not there yet", dir.display(), wanted.display())
}

fn print(title: &str, findings: &[Finding]) -> Result<(), Failure> {
    let mut out = stdout().lock();
    writeln!(out, "{title}\n")?;
    for finding in findings {
        writeln!(out, "{:<14}{:<9}{}", finding.about, finding.verdict.mark(), finding.found)?;
        if let Some(advice) = &finding.advice {
            writeln!(out, "{:23}{advice}", "")?;
        }
    }
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    let (problems, warnings) = (count(Verdict::Problem), count(Verdict::Warning));
    match (problems, warnings) {
        (0, 0) => writeln!(out, "\nA database is well kept here.")?,
        (0, warnings) => writeln!(out, "\nA database can be kept here; {warnings} to look at first.")?,
        (problems, _) => writeln!(out, "\nNo database can be kept here: {problems} to mend first.")?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_not_there_is_looked_at_where_it_would_be_made() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(existing(&dir.path().join("a/b")), dir.path());
        assert_eq!(existing(dir.path()), dir.path());
        let missing = title(Path::new("/a/b"), Path::new("/"));
        assert_eq!(missing, "/ for a database in /a/b, which is not there yet");
        assert_eq!(title(dir.path(), dir.path()), format!("{} for a database", dir.path().display()));
    }
}
