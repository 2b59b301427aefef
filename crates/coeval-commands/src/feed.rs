// SPDX-License-Identifier: Apache-2.0
//! `coeval feed`: committed transactions as they come, each row before and after.

mod arrow_head;
mod arrow_json;
mod arrow_tables;
mod copy;
mod json_lines;
mod output;

use crate::arguments::{FeedArguments, FeedFormat};
use crate::failure::Failure;
use crate::interrupt::{Interrupt, STOPPING};
use crate::secret_file::secret_in;
use crate::serve::log;
use arrow_json::ArrowJson;
use arrow_tables::ArrowTables;
use coeval::{CHANGE_FEED_NAME, ChangeFeedError, ChangeToken};
use coeval_archive::Archive;
use coeval_replica::{ArchiveSource, FeedEnd, Feeding, ReplicaError, SourceAddress, Sources};
use copy::{Begin, Copies};
use json_lines::JsonLines;
use output::{Output, Writer};
use std::io::stdout;
use std::time::Duration;

/// Feeds changes to the standard output until the end, or until it is stopped.
///
/// # Errors
/// If the feed cannot begin there, the source does not go on, or the output cannot be written.
pub(crate) fn run(arguments: &FeedArguments) -> Result<(), Failure> {
    log::begin(log::Format::Text);
    let begin = begin(arguments)?;
    let (end, until) = match arguments.to.as_deref() {
        None => (FeedEnd::Never, None),
        Some("now") => (FeedEnd::Now, None),
        Some(text) => (FeedEnd::AtToken, Some(token(text)?)),
    };
    let sources = sources(arguments)?;
    let interrupt = Interrupt::watch(STOPPING);
    let copies = Copies::new(arguments.state.as_deref(), arguments.keep_log as u64)?;
    let (mut feed, link) = match copies.open(&sources, begin, &interrupt.flag()) {
        // Nothing was given: the next one begins as this one did.
        Err(_) if interrupt.was_asked() => return Ok(()),
        opened => opened?,
    };
    if let Some(until) = until {
        feed = feed.until(until);
    }
    let writer: Box<dyn Writer> = match arguments.format {
        FeedFormat::Json => Box::new(JsonLines::new(stdout().lock())),
        FeedFormat::Arrow => Box::new(ArrowTables::new(stdout().lock())),
        FeedFormat::ArrowJson => Box::new(ArrowJson::begin(stdout().lock())?),
    };
    let mut output = Output::new(writer, &arguments.tables, begin.token());
    let fed = Feeding::new(feed, sources, end, interrupt.flag()).run(link, &mut output);
    match fed {
        Ok(()) => Ok(output.finish()?),
        Err(ReplicaError::Feed(ChangeFeedError::Output(error))) => Err(error.into()),
        Err(error) => {
            // What was given is good up to its last token.
            output.finish()?;
            Err(failure(&error))
        }
    }
}

fn begin(arguments: &FeedArguments) -> Result<Begin, Failure> {
    Ok(match arguments.from.as_deref() {
        None => Begin::Now,
        Some("start") => Begin::Oldest,
        Some(text) => Begin::Behind(token(text)?),
    })
}

fn token(text: &str) -> Result<ChangeToken, Failure> {
    text.parse().map_err(|error: coeval::MalformedToken| Failure::Usage(error.to_string()))
}

/// What went wrong with the source, and what to do about it.
fn failure(error: &ReplicaError) -> Failure {
    let advice = match error {
        error if error.needs_copy() => {
            "; the server does not keep the log for feeds: name its archive too (archive=PLACE), or begin anew without --from and with an empty --state"
        }
        ReplicaError::Refused { state, .. } if state == "55000" => {
            ": a failover has left what the feed's copy has; begin anew, with an empty --state and behind a token that counts"
        }
        ReplicaError::Feed(ChangeFeedError::Foreign { .. }) => {
            ": a failover or a restore has left what it stands for; compare, and begin anew"
        }
        _ => "",
    };
    Failure::Work(format!("{error}{advice}"))
}

fn sources(arguments: &FeedArguments) -> Result<Sources, Failure> {
    let address =
        SourceAddress::parse(&arguments.source).map_err(|error| Failure::Usage(error.to_string()))?;
    let mut primary = address.primary;
    match (&mut primary, &arguments.password_file) {
        (Some(primary), Some(file)) => primary.password = Some(secret_in(file)?),
        (None, Some(_)) => {
            let message = "--password-file is for a server, and SOURCE names none";
            return Err(Failure::Usage(message.to_owned()));
        }
        _ => {}
    }
    if let Some(primary) = &mut primary {
        primary.application_name = CHANGE_FEED_NAME.to_owned();
    }
    let archive = address.archive.as_deref().map(Archive::open).transpose();
    let archive = archive.map_err(|error| Failure::work("cannot read the archive", error))?;
    let interval = Duration::from_secs_f64(arguments.poll);
    let clock_difference = None;
    let archive = archive.map(|archive| ArchiveSource { archive, interval, clock_difference });
    Ok(Sources { primary, archive, peers: Vec::new() })
}
