// SPDX-License-Identifier: Apache-2.0
//! The rules that the proof rests on, by name. A test leaves out one after the other and sees what goes wrong.

/// A rule of the protocol; the README's proof names each where it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Answers to `Begin` name what is pending.
    PendingLists,
    /// Whoever receives a message moves its clock.
    Clocks,
    /// A commit names what it depends on, and LCE waits for that.
    Dependencies,
    /// All holders log a commit before anybody takes it for decided.
    DecidedBeforeShown,
    /// What an answer promises is on disk before it is sent.
    LogBeforeAnswer,
    /// A rollback ends when the rows are gone everywhere.
    CutBeforeEnded,
    /// Who has ended is not taken for new when a message of it comes again.
    EndedStaysEnded,
    /// After a cut, no append of the transaction is taken any more.
    CutStaysCut,
    /// Appends have numbers, and one that comes twice is taken once.
    NumberedAppends,
    /// A holder that lost appends refuses the commit.
    CountedAppends,
    /// Messages of another view are refused.
    SameView,
    /// The answers to `Begin` that make a snapshot are all of one view.
    AnswersOfOneView,
    /// A new incarnation begins nothing before every member has told its clock.
    ClockAboveAll,
    /// A dead coordinator's transactions are closed on all nodes before their outcome is recorded.
    CloseBeforeOutcome,
    /// Of a dead coordinator's transactions those are committed that all surviving holders have logged; without the
    /// rule one holder is enough.
    AllHoldersCommit,
    /// Who is removed from a view leaves enough replicas.
    EnoughReplicas,
    /// LCE moves to transactions with rows alone.
    RowsForLatest,
    /// Who comes back without its place forgets what its log has of transactions that had not ended.
    ForgetWhenAway,
    /// It has forgotten them in its later lives too.
    ForgetForGood,
    /// From answering a delete's begin on, a declared reader that lacks the delete gets nothing newer.
    DeletesHoldReaders,
    /// So it stays when the delete has ended, until the reader gets the delete.
    ReadersStayBelowDeletes,
    /// Who has met all goes by its own answers to deletes' begins, not by what others have answered.
    OwnAnswerToDeletes,
    /// What any node knows to have ended is no dependency.
    EndedIsNoDependency,
    /// A delete's snapshot is not made while the transactions of a dead coordinator are open.
    DeletesWaitForClosing,
    /// Who has come back gives no snapshot before it knows what the others know.
    MeetBeforeReading,
    /// LSE waits for readers.
    SafeWaitsForReaders,
    /// LSE waits for all members.
    SafeOfAllMembers,
    /// LSE waits for the oldest rows that a reader may still come with, and what these name.
    SafeWaitsForAges,
    /// What rows name is shown by a node that knows itself that it has ended.
    AgesThatHaveEnded,
    /// Of a dead coordinator's transactions with rows those are committed whose rows are there.
    RowsDecide,
    /// Rows name a transaction that they are one with when all before it has ended.
    NamedBehindAll,
    /// A node that has named one answers no delete's begin before it knows how that has ended.
    DeletesWaitForRows,
    /// While a brick moves, loads append to its holders of before and of after.
    AppendToBoth,
    /// A brick is copied when the loads that began before have ended.
    OlderLoadsEnd,
    /// A copy counts for what had ended when it was asked for; the rest of a brick has come here by itself.
    CopyWhatHadEnded,
    /// A node serves what it has copied.
    CopyBeforeServing,
    /// Only who comes back with its log keeps its place.
    ReturnWithLog,
    /// A number is given to one node, whatever becomes of that.
    NumberGivenOnce,
    /// Who asks for a number again, with the same start, gets the same one.
    SameStartSameNumber,
    /// Who was removed does not come back.
    RemovedStaysOut,
    /// A node that is drained has its place until the others have its bricks.
    DrainedServesUntilMoved,
    /// When they have, it has none.
    DrainedLosesPlace,
    /// A record of the keeper is used when enough nodes hold it.
    HeldByEnough,
    /// Each record that is not known to be in use is held by enough of those who were members before it.
    EachViewHolds,
    /// Who holds a record has it on disk.
    HeldOnDisk,
    /// A new keeper hears enough nodes before it begins.
    EnoughAnswers,
    /// Enough of the members of each view that it goes by and that is not known to be in use.
    EachViewAnswers,
    /// It goes on after the records of the newest keeper, not after the most records.
    NewestTermFirst,
    /// A node that has answered a keeper takes nothing from one before it.
    TermsKept,
    /// A node that has lost its disk does not count among those that hold or answer.
    LostDiskCountsNot,
    /// The node of the last keeper is enough only if it has answered no later one elsewhere.
    NoLaterElsewhere,
    /// A keeper that begins without lost nodes has heard all others that it knows to have been members.
    HearsAllLeft,
    /// A node holds nothing for a keeper whose list is not the one that it has followed.
    OneListOfViews,
    /// One record stands for settled ones alone.
    OnlySettledIsFolded,
    /// It has what outcomes have to be committed and LCE may not have passed everywhere.
    OutcomesStay,
    /// A code is told when it is on the disks of all holders of its dictionary.
    CodesOnAllHolders,
    /// Only the owner of a dictionary gives its codes.
    OneOwner,
    /// A holder takes codes only behind what the owner has before them.
    SamePast,
    /// A text that has a code, told or not, gets no other.
    OneCodePerText,
    /// Who gets bricks says that it has them when it has the dictionaries that come with them.
    AllCodesBeforeServing,
    /// Rows, appended or copied, come with the texts of their codes.
    TextsWithRows,
    /// These are taken in before the rows are.
    TextsBeforeRows,
    /// What was taken in is logged.
    TextsStay,
    /// Who knows all texts asks nobody.
    KnownAsksNobody,
    /// A reader asks for what it does not know, and does not take it for missing.
    UnknownIsAsked,
}

/// Which rules are kept.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rules {
    left_out: Option<Rule>,
}

impl Rules {
    /// All of them.
    pub(crate) const ALL: Self = Self { left_out: None };

    /// All but one.
    #[cfg(test)]
    pub(crate) const fn without(rule: Rule) -> Self {
        Self { left_out: Some(rule) }
    }

    /// Whether the rule is kept.
    pub(crate) fn keep(self, rule: Rule) -> bool {
        self.left_out != Some(rule)
    }
}

#[cfg(test)]
impl Rule {
    /// Each of them.
    pub(crate) const ALL: [Self; 65] = [
        Self::PendingLists,
        Self::Clocks,
        Self::Dependencies,
        Self::DecidedBeforeShown,
        Self::LogBeforeAnswer,
        Self::CutBeforeEnded,
        Self::EndedStaysEnded,
        Self::CutStaysCut,
        Self::NumberedAppends,
        Self::CountedAppends,
        Self::SameView,
        Self::AnswersOfOneView,
        Self::ClockAboveAll,
        Self::CloseBeforeOutcome,
        Self::AllHoldersCommit,
        Self::EnoughReplicas,
        Self::RowsForLatest,
        Self::ForgetWhenAway,
        Self::ForgetForGood,
        Self::DeletesHoldReaders,
        Self::ReadersStayBelowDeletes,
        Self::OwnAnswerToDeletes,
        Self::EndedIsNoDependency,
        Self::DeletesWaitForClosing,
        Self::MeetBeforeReading,
        Self::SafeWaitsForReaders,
        Self::SafeOfAllMembers,
        Self::SafeWaitsForAges,
        Self::AgesThatHaveEnded,
        Self::RowsDecide,
        Self::NamedBehindAll,
        Self::DeletesWaitForRows,
        Self::AppendToBoth,
        Self::OlderLoadsEnd,
        Self::CopyWhatHadEnded,
        Self::CopyBeforeServing,
        Self::ReturnWithLog,
        Self::NumberGivenOnce,
        Self::SameStartSameNumber,
        Self::RemovedStaysOut,
        Self::DrainedServesUntilMoved,
        Self::DrainedLosesPlace,
        Self::HeldByEnough,
        Self::EachViewHolds,
        Self::HeldOnDisk,
        Self::EnoughAnswers,
        Self::EachViewAnswers,
        Self::NewestTermFirst,
        Self::TermsKept,
        Self::LostDiskCountsNot,
        Self::NoLaterElsewhere,
        Self::HearsAllLeft,
        Self::OneListOfViews,
        Self::OnlySettledIsFolded,
        Self::OutcomesStay,
        Self::CodesOnAllHolders,
        Self::OneOwner,
        Self::SamePast,
        Self::OneCodePerText,
        Self::AllCodesBeforeServing,
        Self::TextsWithRows,
        Self::TextsBeforeRows,
        Self::TextsStay,
        Self::KnownAsksNobody,
        Self::UnknownIsAsked,
    ];
}
