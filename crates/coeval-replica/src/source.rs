// SPDX-License-Identifier: Apache-2.0
//! Where a replica's log comes from: a primary, an archive, or both.

use crate::address::{PrimaryAddress, without_password};
use crate::error::ReplicaError;
use crate::peer::Peer;
use coeval_archive::Archive;
use std::fmt;
use std::time::Duration;

/// Where the log comes from; one of them at least is there.
#[derive(Clone, PartialEq, Eq)]
pub struct SourceAddress {
    /// The primary.
    pub primary: Option<PrimaryAddress>,
    /// The place of an archive.
    pub archive: Option<String>,
}

impl fmt::Debug for SourceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SourceAddress({self})")
    }
}

impl fmt::Display for SourceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.primary, &self.archive) {
            (Some(primary), None) => primary.fmt(f),
            (Some(primary), Some(archive)) => write!(f, "{primary} or the archive {archive}"),
            (None, archive) => write!(f, "the archive {}", archive.as_deref().unwrap_or_default()),
        }
    }
}

impl SourceAddress {
    /// Reads `archive=PLACE`, or what [`PrimaryAddress::parse`] reads, or both, with spaces or commas between: a place with one
    /// of these in it is written as an address (`file:///my%20archive`).
    ///
    /// # Errors
    /// [`ReplicaError::Address`].
    pub fn parse(text: &str) -> Result<Self, ReplicaError> {
        let is_between = [' ', ',', '\t', '\n'];
        let words = text.split(is_between).filter(|word| !word.is_empty());
        let (archives, others): (Vec<&str>, Vec<&str>) = words.partition(|word| word.starts_with("archive="));
        let places: Vec<&str> = archives.iter().filter_map(|word| word.strip_prefix("archive=")).collect();
        let refuse =
            |what: &str| ReplicaError::Address { text: without_password(text), what: what.to_owned() };
        let archive = match places.as_slice() {
            [] => None,
            [""] => return Err(refuse("archive=PLACE names a directory or the address of an archive")),
            [place] => Some((*place).to_owned()),
            _ => return Err(refuse("there is one archive of a database")),
        };
        let primary = match (others.as_slice(), &archive) {
            ([], Some(_)) => None,
            _ => Some(PrimaryAddress::parse(&others.join(","))?),
        };
        Ok(Self { primary, archive })
    }
}

/// Where the log comes from; one of them at least is there. The primary is preferred: it has everything, and at once.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The primary.
    pub primary: Option<PrimaryAddress>,
    /// The archive, for what the primary has not got any more, and for when it does not answer.
    pub archive: Option<ArchiveSource>,
    /// Other machines with the database, one of which may be the primary when the one that is followed is not any more.
    pub peers: Vec<Peer>,
}

impl fmt::Display for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let archive = self.archive.as_ref().map(|source| source.archive.place().to_owned());
        SourceAddress { primary: self.primary.clone(), archive }.fmt(f)
    }
}

/// An archive that is followed.
#[derive(Clone, Debug)]
pub struct ArchiveSource {
    /// The archive.
    pub archive: Archive,
    /// How often it is looked for what is new.
    pub interval: Duration,
}

impl From<PrimaryAddress> for Sources {
    fn from(primary: PrimaryAddress) -> Self {
        Self { primary: Some(primary), archive: None, peers: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_stands_alone_or_beside_a_primary() {
        let alone = SourceAddress::parse("archive=s3://bucket/a?b=c").unwrap();
        assert_eq!((&alone.primary, alone.archive.as_deref()), (&None, Some("s3://bucket/a?b=c")));
        assert_eq!(alone.to_string(), "the archive s3://bucket/a?b=c");
        let both = SourceAddress::parse("host=db1 archive=/mnt/archive,user=copy").unwrap();
        assert_eq!(both.primary.as_ref().unwrap().user, "copy");
        assert_eq!(both.to_string(), "db1:5432 or the archive /mnt/archive");
        let primary = SourceAddress::parse("host=db1,user=copy").unwrap();
        assert_eq!(primary.archive, None);
    }

    #[test]
    fn what_is_wrong_is_said_and_no_password() {
        let wrong = [
            ("", "host and user are needed"),
            ("archive=", "names a directory"),
            ("archive=/a,archive=/b", "one archive"),
            ("archive=/a,password=secret", "host and user are needed"),
            ("archive=/a,host=db1,password=secret", "host and user are needed"),
        ];
        for (text, what) in wrong {
            let message = SourceAddress::parse(text).unwrap_err().to_string();
            assert!(message.contains(what) && !message.contains("secret"), "{text}: {message}");
        }
    }
}
