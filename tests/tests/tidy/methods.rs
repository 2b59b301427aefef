// SPDX-License-Identifier: Apache-2.0
//! Methods of a type that has everything: whoever needs one part of it is better handed that part, and says so by its arguments.

use crate::sources::Sources;

/// How many functions a type has, in blocks of its own, in the files whose paths begin so.
pub(crate) fn count(sources: &Sources, begin_of_path: &str, name: &str) -> usize {
    let begin = format!("impl {name} {{");
    let files = sources.rust_files().filter(|file| file.path.starts_with(begin_of_path) && !file.is_test());
    files.map(|file| count_in(file.production(), &begin)).sum()
}

fn count_in(text: &str, begin: &str) -> usize {
    let (mut is_within, mut count) = (false, 0);
    for line in text.lines() {
        if line == begin {
            is_within = true;
        } else if line == "}" {
            is_within = false;
        } else if is_within && begins_function(line) {
            count += 1;
        }
    }
    count
}

/// Whether a function begins in this line, one level deep.
fn begins_function(line: &str) -> bool {
    let Some(line) = line.strip_prefix("    ").filter(|line| !line.starts_with(' ')) else { return false };
    let is_qualifier = |word: &str| word.starts_with("pub") || ["const", "async", "unsafe"].contains(&word);
    line.find("fn ").is_some_and(|place| line[..place].split_whitespace().all(is_qualifier))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::SourceFile;

    #[test]
    fn functions_are_counted_in_blocks_of_the_type_alone() {
        let text = "impl Session {\n    /// No fn here.\n    pub(super) fn a(&self) {\n        fn inner() {}\n    }\n\n    fn b() {}\n}\n\n\
                    impl Drop for Session {\n    fn drop(&mut self) {}\n}\n\nfn free() {}\n\nimpl Session {\n    pub const fn c() {}\n}\n";
        let sources = Sources::new(vec![
            SourceFile::new("crates/a/src/session.rs", text),
            SourceFile::new("crates/a/src/other.rs", text),
            SourceFile::new("crates/a/src/session/tests.rs", text),
        ]);
        assert_eq!(count(&sources, "crates/a/src/session", "Session"), 3);
    }
}
