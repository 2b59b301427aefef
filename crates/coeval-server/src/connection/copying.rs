// SPDX-License-Identifier: Apache-2.0
//! COPY FROM STDIN: the client's bytes are read as they come, and go into the table when it says that these were
//! all.

use super::rest::Rest;
use super::{Connection, End, Failure, Limited, Phase};
use crate::protocol::frontend::{Frontend, violation};
use crate::protocol::input::Frame;
use coeval::{SqlError, SqlState};
use coeval_sql::CopyIn;

/// A COPY that is under way.
#[derive(Debug)]
pub(super) struct Copying {
    copy: CopyIn,
    origin: Origin,
    /// Ends it when its time is over.
    _limited: Limited,
}

/// What a COPY came with.
#[derive(Debug)]
pub(super) enum Origin {
    /// A text, with what is left of it.
    Simple(Rest),
    /// An Execute: a Sync ends its group.
    Extended,
}

impl Connection {
    /// Asks the client for the rows of a COPY.
    pub(super) fn begin_copy(&mut self, copy: CopyIn, origin: Origin, limited: Limited) {
        self.output.copy_response(b'G', copy.encoding(), copy.column_count());
        self.phase = Phase::Copying(Box::new(Copying { copy, origin, _limited: limited }));
    }

    pub(super) async fn copy_message(&mut self, frame: Frame<'_>) -> Result<(), End> {
        let _watched = self.watched();
        let Phase::Copying(copying) = &mut self.phase else { unreachable!("a COPY is under way") };
        let outcome = match Frontend::read(frame.kind, frame.body) {
            Ok(Frontend::CopyData(bytes)) => match self.session.feed_copy(&mut copying.copy, bytes) {
                Ok(()) => return Ok(()),
                Err(error) => Err(error),
            },
            // Clients send these before they know that a COPY has begun.
            Ok(Frontend::Flush | Frontend::Sync) => return Ok(()),
            Ok(Frontend::Terminate) => return Err(End::Finished),
            Ok(Frontend::CopyDone) => Ok(()),
            Ok(Frontend::CopyFail(reason)) => {
                Err(SqlError::new(SqlState::QueryCanceled, format!("COPY from stdin failed: {reason}")))
            }
            Ok(_) => Err(violation(format!("unexpected message type 0x{:02X} during COPY", frame.kind))),
            Err(error) => Err(error),
        };
        self.end_copy(outcome).await
    }

    /// The end of a COPY: the client has sent all, or something is wrong.
    pub(super) async fn end_copy(&mut self, outcome: Result<(), SqlError>) -> Result<(), End> {
        let Phase::Copying(copying) = std::mem::replace(&mut self.phase, Phase::Ready) else {
            unreachable!("a COPY is under way")
        };
        let behind_it = match copying.origin {
            Origin::Simple(_) => Phase::Ready,
            Origin::Extended => Phase::Skipping,
        };
        let finished = match outcome {
            Ok(()) => self.finish_copy(*copying).await,
            Err(error) => Err(Failure::Statement(self.session.abort(error))),
        };
        match finished {
            Ok(()) => Ok(()),
            Err(Failure::End(end)) => Err(end),
            Err(Failure::Statement(error)) => self.fail(error, behind_it),
        }
    }

    async fn finish_copy(&mut self, copying: Copying) -> Result<(), Failure> {
        let Copying { copy, origin, _limited } = copying;
        let tag = self.run(|session| session.finish_copy(copy)).await?;
        self.tell_notices();
        self.output.command_complete(tag);
        match origin {
            Origin::Simple(rest) => self.run_rest(rest).await,
            Origin::Extended => {
                self.after_statement();
                Ok(())
            }
        }
    }
}
