// SPDX-License-Identifier: Apache-2.0
//! Where a replica's log comes from: a primary, an archive, or both.

use crate::address::{PrimaryAddress, without_password};
use crate::error::ReplicaError;
use crate::peer::Peer;
use coeval_archive::Archive;
use std::fmt;
use std::time::Duration;

const CLOCK_DIFFERENCE: &str = "clock_difference=";

/// Where the log comes from; one of them at least is there.
#[derive(Clone, PartialEq, Eq)]
pub struct SourceAddress {
    /// The primary.
    pub primary: Option<PrimaryAddress>,
    /// The place of an archive.
    pub archive: Option<String>,
    /// See [`ArchiveSource::clock_difference`].
    pub clock_difference: Option<Duration>,
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
    /// of these in it is written as an address (`file:///my%20archive`). Beside an archive, `clock_difference=SECONDS` is read too.
    ///
    /// # Errors
    /// [`ReplicaError::Address`].
    pub fn parse(text: &str) -> Result<Self, ReplicaError> {
        let is_between = [' ', ',', '\t', '\n'];
        let words = text.split(is_between).filter(|word| !word.is_empty());
        let (archives, others): (Vec<&str>, Vec<&str>) = words.partition(|word| word.starts_with("archive="));
        let (clocks, others): (Vec<&str>, Vec<&str>) =
            others.into_iter().partition(|word| word.starts_with(CLOCK_DIFFERENCE));
        let places: Vec<&str> = archives.iter().filter_map(|word| word.strip_prefix("archive=")).collect();
        let refuse =
            |what: &str| ReplicaError::Address { text: without_password(text), what: what.to_owned() };
        let archive = match places.as_slice() {
            [] => None,
            [""] => return Err(refuse("archive=PLACE names a directory or the address of an archive")),
            [place] => Some((*place).to_owned()),
            _ => return Err(refuse("there is one archive of a database")),
        };
        let clock_difference = match (clocks.as_slice(), &archive) {
            ([], _) => None,
            ([word], Some(_)) => {
                let seconds = word.trim_start_matches(CLOCK_DIFFERENCE).parse::<f64>().ok();
                let difference = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                Some(difference.ok_or_else(|| refuse("clock_difference=SECONDS takes a number"))?)
            }
            _ => return Err(refuse("clock_difference=SECONDS is said once, of an archive")),
        };
        let primary = match (others.as_slice(), &archive) {
            ([], Some(_)) => None,
            _ => Some(PrimaryAddress::parse(&others.join(","))?),
        };
        Ok(Self { primary, archive, clock_difference })
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
        let clock_difference = self.archive.as_ref().and_then(|source| source.clock_difference);
        SourceAddress { primary: self.primary.clone(), archive, clock_difference }.fmt(f)
    }
}

/// An archive that is followed.
#[derive(Clone, Debug)]
pub struct ArchiveSource {
    /// The archive.
    pub archive: Archive,
    /// How often it is looked for what is new.
    pub interval: Duration,
    /// By so much the clocks of this machine and of whoever is the primary differ at most, as somebody vouches: then the times in the
    /// log say how old that is. If nobody does, nothing says so.
    pub clock_difference: Option<Duration>,
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
        let trusted = SourceAddress::parse("archive=/mnt/archive,clock_difference=1.5").unwrap();
        assert_eq!(trusted.clock_difference, Some(Duration::from_millis(1_500)));
        assert_eq!((trusted.primary, both.clock_difference), (None, None));
    }

    #[test]
    fn what_is_wrong_is_said_and_no_password() {
        let wrong = [
            ("", "host and user are needed"),
            ("archive=", "names a directory"),
            ("archive=/a,archive=/b", "one archive"),
            ("archive=/a,password=secret", "host and user are needed"),
            ("archive=/a,clock_difference=soon", "takes a number"),
            ("archive=/a,clock_difference=-1", "takes a number"),
            ("host=db1,user=copy,clock_difference=1", "of an archive"),
            ("archive=/a,host=db1,password=secret", "host and user are needed"),
        ];
        for (text, what) in wrong {
            let message = SourceAddress::parse(text).unwrap_err().to_string();
            assert!(message.contains(what) && !message.contains("secret"), "{text}: {message}");
        }
    }
}
