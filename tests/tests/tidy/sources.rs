// SPDX-License-Identifier: Apache-2.0
//! The files of the repository, as git tracks them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A tracked text file.
pub(crate) struct SourceFile {
    /// Its path from the top of the repository.
    pub path: String,
    /// What it holds.
    pub text: String,
}

impl SourceFile {
    /// A file that exists only in a test.
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// The part before an in-file test module.
    pub(crate) fn production(&self) -> &str {
        self.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
    }

    /// Whether it is there for tests, benchmarks or examples only.
    pub(crate) fn is_test(&self) -> bool {
        let parts = ["/tests/", "/tests.rs", "/benches/", "/examples/", "/model.rs", "/model/"];
        parts.iter().any(|part| self.path.contains(part)) || self.path.starts_with("tests/")
    }
}

/// All tracked text files.
pub(crate) struct Sources {
    files: Vec<SourceFile>,
}

impl Sources {
    /// Those of the repository that this test belongs to.
    pub(crate) fn of_repository() -> Self {
        let top = Path::new("..");
        let paths = tracked(top).unwrap_or_else(|| walk(top));
        let read = |path: PathBuf| {
            // A picture has no text, and is there to be linked to.
            let text = String::from_utf8(std::fs::read(top.join(&path)).ok()?).unwrap_or_default();
            Some(SourceFile { path: path.to_string_lossy().into_owned(), text })
        };
        Self { files: paths.into_iter().filter_map(read).collect() }
    }

    /// Files that exist only in a test.
    pub(crate) fn new(files: Vec<SourceFile>) -> Self {
        Self { files }
    }

    /// All of them.
    pub(crate) fn files(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter()
    }

    /// The Rust files.
    pub(crate) fn rust_files(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// The file at this path.
    pub(crate) fn get(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|file| file.path == path)
    }
}

fn tracked(top: &Path) -> Option<Vec<PathBuf>> {
    let output = Command::new("git").args(["ls-files", "-z"]).current_dir(top).output().ok()?;
    let names = String::from_utf8(output.stdout).ok()?;
    let paths: Vec<_> = names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect();
    (output.status.success() && !paths.is_empty()).then_some(paths)
}

/// Without git (a source archive): every file but build output.
fn walk(top: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(dir) = open.pop() {
        let Ok(entries) = std::fs::read_dir(top.join(&dir)) else { continue };
        for entry in entries.flatten() {
            let path = dir.join(entry.file_name());
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            match entry.file_name().to_str() {
                Some("target" | ".git" | ".venv") => {}
                _ if is_dir => open.push(path),
                _ => found.push(path),
            }
        }
    }
    found
}
