// SPDX-License-Identifier: Apache-2.0
//! Lists the files of the page, which are embedded as they are: nobody has to keep a list.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// What makes the libraries, and is not served.
const NOT_SERVED: [&str; 6] =
    ["build", "entry.js", "licenses.mjs", "node_modules", "package-lock.json", "package.json"];

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if NOT_SERVED.contains(&name) || name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            println!("cargo::rerun-if-changed={}", path.display());
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let web = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("web");
    println!("cargo::rerun-if-changed={}", web.display());
    let mut files = Vec::new();
    collect(&web, &mut files)?;
    files.sort();
    let mut list =
        String::from("/// Each file of the page, by its path.\nconst FILES: &[(&str, &[u8])] = &[\n");
    for file in &files {
        let name = file.strip_prefix(&web).expect("it is in the folder");
        writeln!(list, "    ({name:?}, include_bytes!({file:?})),").expect("a text takes any length");
    }
    list.push_str("];\n");
    fs::write(PathBuf::from(env::var("OUT_DIR").expect("cargo sets it")).join("files.rs"), list)
}
