// SPDX-License-Identifier: Apache-2.0
//! What is fixed of a node when its cluster is made, in the file `settings` of the node's directory.
//!
//! Why: nodes that do not agree on one of these give an epoch twice, or look for bricks where they are not. A wrong word on the
//! command line is refused by name.
//!
//! ```text
//! version 1
//! cluster 5577006791947779410     the id of the database: all copies of one have it
//! node 2
//! stride 1024
//! replicas 2
//! founded                         on the node with the keeper, once there are records of views
//! ```

use crate::failure::Failure;
use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Its name.
const FILE_NAME: &str = "settings";
/// The version of the file.
const VERSION: u64 = 1;
/// How many nodes epochs are handed out for, in clusters that are made now.
pub(super) const STRIDE: u32 = 1_024;

/// What is fixed of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeSettings {
    /// The cluster.
    pub(super) cluster: u64,
    /// The node's number.
    pub(super) node: u32,
    /// How many nodes epochs are handed out for.
    pub(super) stride: u32,
    /// On how many nodes each brick is.
    pub(super) replicas: u32,
}

/// Whether there are records of views, on the node with the keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Foundation {
    /// None that the settings know of.
    Pending,
    /// There are: a log without any was lost.
    Laid,
}

/// What a node's directory says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// Nothing: it has not been a node's.
    New,
    /// It is a node's.
    Node(NodeSettings, Foundation),
}

/// Looks at what is fixed in a node's directory.
///
/// # Errors
/// If the file cannot be read, or is damaged.
pub(super) fn read(directory: &Path) -> Result<Settled, Failure> {
    let path = directory.join(FILE_NAME);
    match std::fs::read_to_string(&path) {
        Ok(text) => match parse(&text) {
            Some((settings, foundation)) => Ok(Settled::Node(settings, foundation)),
            None => Err(Failure::Work(format!(
                "{} is damaged, or of a newer program: what is fixed of this node of a cluster is not known",
                path.display()
            ))),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Settled::New),
        Err(error) => Err(Failure::work(format_args!("cannot read {}", path.display()), error)),
    }
}

impl NodeSettings {
    /// Writes them durably, into a directory that is there.
    ///
    /// # Errors
    /// Those of the file system: what was there before is there still, or the new ones are.
    pub(super) fn write(&self, directory: &Path, foundation: Foundation) -> io::Result<()> {
        let founded = match foundation {
            Foundation::Pending => "",
            Foundation::Laid => "founded\n",
        };
        write_file(directory, FILE_NAME, &format!("{self}{founded}"))
    }

    /// Whether the command line asks for the same.
    ///
    /// # Errors
    /// What is different, by its option.
    pub(super) fn check(&self, asked: &Self) -> Result<(), Failure> {
        let differs = |what: &str, option: &str, was: &dyn fmt::Display, is: &dyn fmt::Display| {
            Err(Failure::Usage(format!(
                "this directory is of a node with {what} {was}, which is fixed, and {option} says {is}"
            )))
        };
        if self.cluster != asked.cluster {
            let (was, is) = (self.cluster, asked.cluster);
            return Err(Failure::Work(format!(
                "this directory was a node's of cluster {was}, which is the id of its database, and has database {is} now: \
                 put its folder `cluster` aside to begin anew, and other nodes give it its bricks"
            )));
        }
        if self.node != asked.node {
            return differs("number", "--cluster-nodes or --cluster-node", &self.node, &asked.node);
        }
        if self.replicas != asked.replicas {
            return differs("replicas:", "--cluster-replicas", &self.replicas, &asked.replicas);
        }
        Ok(())
    }
}

impl fmt::Display for NodeSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, node, stride, replicas } = self;
        writeln!(f, "version {VERSION}\ncluster {cluster}\nnode {node}\nstride {stride}\nreplicas {replicas}")
    }
}

fn parse(text: &str) -> Option<(NodeSettings, Foundation)> {
    let mut lines = text.strip_suffix('\n')?.lines();
    let mut number =
        |name: &str| -> Option<u64> { lines.next()?.strip_prefix(name)?.strip_prefix(' ')?.parse().ok() };
    if number("version")? != VERSION {
        return None;
    }
    let (cluster, node) = (number("cluster")?, number("node")?);
    let (stride, replicas) = (number("stride")?, number("replicas")?);
    let settings = NodeSettings {
        cluster,
        node: node.try_into().ok()?,
        stride: stride.try_into().ok()?,
        replicas: replicas.try_into().ok()?,
    };
    let foundation = match (lines.next(), lines.next()) {
        (None, _) => Foundation::Pending,
        (Some("founded"), None) => Foundation::Laid,
        _ => return None,
    };
    Some((settings, foundation))
}

/// Makes a directory for a node, which nobody else may look into.
pub(super) fn make_directory(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => sync_directory(directory.parent().unwrap_or(directory)),
    }
}

/// Writes a file of a node's directory, all of it or as it was before. It is durable when this returns.
pub(super) fn write_file(directory: &Path, name: &str, text: &str) -> io::Result<()> {
    let next = directory.join(format!("{name}.tmp"));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&next)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(next, directory.join(name))?;
    sync_directory(directory)
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> NodeSettings {
        NodeSettings { cluster: u64::MAX, node: 2, stride: STRIDE, replicas: 2 }
    }

    #[test]
    fn what_is_fixed_is_read_again() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("cluster");
        assert_eq!(read(&directory).unwrap(), Settled::New);
        make_directory(&directory).unwrap();
        make_directory(&directory).unwrap();
        assert_eq!(read(&directory).unwrap(), Settled::New);
        for foundation in [Foundation::Pending, Foundation::Laid] {
            settings().write(&directory, foundation).unwrap();
            assert_eq!(read(&directory).unwrap(), Settled::Node(settings(), foundation));
        }
    }

    /// To break it: take what is missing for what is usual. A node with half a file goes on in another cluster then.
    #[test]
    fn half_a_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let whole = settings().to_string();
        for text in ["", "version 1\n", &whole[..whole.len() - 1], &whole.replace("version 1", "version 2")] {
            std::fs::write(directory.path().join(FILE_NAME), text).unwrap();
            let Err(Failure::Work(message)) = read(directory.path()) else { panic!("{text:?} is taken") };
            assert!(message.contains("damaged"), "{message}");
        }
    }

    /// To break it: leave one of them out of `check`.
    #[test]
    fn another_word_on_the_command_line_is_refused_by_name() {
        let fixed = settings();
        assert!(fixed.check(&settings()).is_ok());
        for (asked, what) in [
            (NodeSettings { cluster: 1, ..settings() }, "database 1"),
            (NodeSettings { node: 3, ..settings() }, "--cluster-node"),
            (NodeSettings { replicas: 3, ..settings() }, "--cluster-replicas says 3"),
        ] {
            let (Err(Failure::Usage(message)) | Err(Failure::Work(message))) = fixed.check(&asked) else {
                panic!("{asked} is taken");
            };
            assert!(message.contains(what), "{message}");
        }
    }
}
