// SPDX-License-Identifier: Apache-2.0
//! What a client is told of what goes wrong in a cluster.
//!
//! | SQLSTATE | what has happened | what became of the work |
//! |---|---|---|
//! | 57P03 | the node does not serve in time, nobody who has a brick answers, or the primary is elsewhere by now | nothing; it may be run again |
//! | 40001 | a load lost the last holder of a brick, or a snapshot was kept too long | rolled back; it may be run again |
//! | 55P03 | a load with rows waited too long for older ones | rolled back; no statement runs again by itself, since it would wait again |
//! | 08007 | the node left the cluster between the wish to commit and the decision | committed as a whole, or rolled back |
//! | 0A000 | a delete on another node than that with the keeper | nothing |
//! | 55000 | a node is not drained or removed: the keeper is elsewhere, or the cluster cannot do without it; or it does not go on without lost nodes | nothing |
//! | 42P01 | the table is gone, or not known here yet | nothing |
//! | 23514, 54000 | rows that the table does not take; more texts or longer ones than it takes | nothing of the load |

use coeval::{SqlError, SqlState};
use coeval_cluster::{
    BeginError, ChangeNodesError, CodesError, DefinitionError, DictionaryError, LoadError, NodeAddress,
    ReadError, RecoverError, RowsRefused,
};
use std::fmt::Display;

const AGAIN: &str = "Run it again, here or on another node: coeval cluster status lists them.";

/// The node is not there, or does not serve.
pub(super) fn not_there(why: impl Display) -> SqlError {
    let message = format!("this node of the cluster does not serve: {why}");
    SqlError::new(SqlState::CannotConnectNow, message).with_hint(AGAIN)
}

/// Of a table whose definition is refused.
pub(super) fn of_definition(error: &DefinitionError) -> SqlError {
    let state = match error {
        DefinitionError::Schema { .. } | DefinitionError::TextForOldRows { .. } => {
            SqlState::FeatureNotSupported
        }
        DefinitionError::Forgotten { .. } => SqlState::UndefinedTable,
        _ => SqlState::ObjectNotInPrerequisiteState,
    };
    SqlError::new(state, error.to_string())
}

/// Of a reader.
pub(super) fn of_reading(error: &ReadError) -> SqlError {
    let message = error.to_string();
    match error {
        ReadError::NotServing { .. }
        | ReadError::NotToBeHad { .. }
        | ReadError::NotListed { .. }
        | ReadError::NotRun { .. }
        | ReadError::NotHere { .. }
        | ReadError::Ended(_) => SqlError::new(SqlState::CannotConnectNow, message).with_hint(AGAIN),
        ReadError::NoTable(_) => SqlError::new(SqlState::UndefinedTable, message)
            .with_hint("It was dropped, or its definition has not come to this node yet."),
        ReadError::BelowSafe => SqlError::new(SqlState::SerializationFailure, message)
            .with_detail(
                "The node was out of the cluster meanwhile, or its other rows are of before that: old rows are not kept for it then.",
            )
            .with_hint("Run the transaction again."),
        ReadError::NoText(_) => SqlError::new(SqlState::DataCorrupted, message),
        _ => SqlError::internal(message),
    }
}

/// Of a load or delete.
pub(super) fn of_writing(error: &LoadError) -> SqlError {
    let message = error.to_string();
    match error {
        LoadError::NotServing { .. } | LoadError::OtherPrimary { .. } | LoadError::Ended(_) => {
            SqlError::new(SqlState::CannotConnectNow, message).with_hint(AGAIN)
        }
        LoadError::NotPrimary { keeper, address } => {
            let what = "deleting from brick tables that are spread over a cluster, on this node,";
            SqlError::new(SqlState::FeatureNotSupported, format!("{what} is not supported"))
                .with_detail("Deletes run one after the other, where the keeper of views is.")
                .with_hint(format!("Run it on node {}{}.", keeper.get(), reached_at(address.as_ref())))
        }
        LoadError::TooLong { .. } => SqlError::new(SqlState::ProgramLimitExceeded, message),
        LoadError::Refused(refused) => of_refused(refused),
        LoadError::Codes(codes) => of_codes(codes),
        LoadError::NotNamed { .. } => SqlError::new(SqlState::LockNotAvailable, message)
            .with_detail("It is to be one transaction with rows, and is seen by nobody before all older ones.")
            .with_hint("Run it again. coeval_cluster_pending counts what is open; idle_in_transaction_session_timeout ends it."),
        LoadError::RolledBack(_) => SqlError::new(SqlState::SerializationFailure, message)
            .with_detail("Nothing of it is left, or will be seen.")
            .with_hint("Run it again."),
        LoadError::Unknown(..) => SqlError::new(SqlState::TransactionResolutionUnknown, message)
            .with_detail("It commits as a whole or not at all, as the keeper of views records.")
            .with_hint("Look whether its rows are there before it is run again."),
        _ => SqlError::internal(message),
    }
}

/// Of a node that is not drained, or not removed.
pub(super) fn of_change(error: &ChangeNodesError) -> SqlError {
    let refused = |message: String| SqlError::new(SqlState::ObjectNotInPrerequisiteState, message);
    match error {
        ChangeNodesError::Elsewhere { keeper, address } => {
            let at = reached_at(address.as_ref());
            refused(
                "nodes are drained and removed where the keeper of views is, which is not here".to_owned(),
            )
            .with_hint(format!(
                "Ask node {0}{at}. If that is lost for good, promote another one, and there: coeval cluster recover n{0} DIR --accept-loss",
                keeper.get()
            ))
        }
        ChangeNodesError::NoKeeper => {
            let hint = "Ask again. The keeper of views is beside the primary: promote this server if that one is lost.";
            SqlError::new(SqlState::CannotConnectNow, error.to_string()).with_hint(hint)
        }
        ChangeNodesError::NotRecovered(why) => of_recovery(why),
        ChangeNodesError::NotSettled { .. } => SqlError::new(SqlState::CannotConnectNow, error.to_string())
            .with_hint("`coeval cluster status` says who is away. Ask again: what is done by then is not done twice."),
        ChangeNodesError::HasKeeper(_) | ChangeNodesError::Refused(_) => refused(error.to_string()),
        _ => SqlError::internal(error.to_string()),
    }
}

/// Of a cluster that does not go on without lost nodes.
fn of_recovery(error: &RecoverError) -> SqlError {
    let message = error.to_string();
    let (state, hint) = match error {
        RecoverError::Begin(BeginError::TooFew { .. }) => (SqlState::CannotConnectNow, "Ask again."),
        RecoverError::Begin(BeginError::Superseded(_)) => (
            SqlState::ObjectNotInPrerequisiteState,
            "Ask the node of that keeper: coeval cluster status shows which it is.",
        ),
        RecoverError::Lives(_) | RecoverError::Unknown(_) => {
            (SqlState::ObjectNotInPrerequisiteState, "Name those that are lost, and no others.")
        }
        RecoverError::Unheard(_) => (
            SqlState::ObjectNotInPrerequisiteState,
            "Start them, or wait a moment. If they are lost for good too, name all that are: coeval cluster recover n1,n3 DIR --accept-loss",
        ),
        RecoverError::LastReplica => (
            SqlState::ObjectNotInPrerequisiteState,
            "Find the machine or the disk of one of them, or restore a backup: coeval restore.",
        ),
        RecoverError::Founder(_) => (
            SqlState::ObjectNotInPrerequisiteState,
            "Find its machine or its disk, or restore a backup: coeval restore.",
        ),
        RecoverError::Begun => {
            (SqlState::ObjectNotInPrerequisiteState, "coeval cluster remove has a node be out that is lost.")
        }
        _ => return SqlError::internal(message),
    };
    SqlError::new(state, message).with_hint(hint)
}

fn reached_at(address: Option<&NodeAddress>) -> String {
    address.map_or_else(String::new, |address| format!(", which the others reach at {address}"))
}

fn of_refused(refused: &RowsRefused) -> SqlError {
    let message = refused.to_string();
    match refused {
        RowsRefused::NoTable(_) => SqlError::new(SqlState::UndefinedTable, message)
            .with_hint("It was dropped, or its definition has not come to this node yet."),
        RowsRefused::Load(_) => SqlError::new(SqlState::CheckViolation, message),
        _ => SqlError::internal(message),
    }
}

fn of_codes(codes: &CodesError) -> SqlError {
    let message = codes.to_string();
    match codes {
        CodesError::Full { .. } => SqlError::new(SqlState::CheckViolation, message)
            .with_hint("A dimension takes as many texts as its PARTITION BY says."),
        CodesError::Dictionary(DictionaryError::TextTooLong { .. }) => {
            SqlError::new(SqlState::StringDataRightTruncation, message)
        }
        CodesError::Dictionary(DictionaryError::TooManyTexts { .. }) => {
            SqlError::new(SqlState::ProgramLimitExceeded, message)
        }
        CodesError::Dictionary(DictionaryError::TwoMeanings { .. }) => {
            SqlError::new(SqlState::DataCorrupted, message)
        }
        CodesError::Dictionary(_) | CodesError::Ended(_) => {
            SqlError::new(SqlState::CannotConnectNow, message).with_hint(AGAIN)
        }
        _ => SqlError::internal(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coeval_cluster::{Epoch, NodeId};
    use std::time::Duration;

    fn elsewhere() -> LoadError {
        LoadError::NotPrimary { keeper: NodeId::new(1), address: Some("db1:7001".parse().unwrap()) }
    }

    /// What a client does next hangs on these. To break it: answer what nobody knows the end of with 40001. It is loaded twice then. Or what
    /// has waited for older loads: a statement outside blocks would wait a hundred times.
    #[test]
    fn each_error_says_whether_it_may_be_run_again() {
        let after = Duration::from_secs(30);
        for (error, code) in [
            (LoadError::NotServing { after }, "57P03"),
            (LoadError::Ended("it was stopped".to_owned()), "57P03"),
            (elsewhere(), "0A000"),
            (LoadError::TooLong { bytes: 9, limit: 8 }, "54000"),
            (LoadError::Refused(RowsRefused::NoTable(7)), "42P01"),
            (LoadError::Refused(RowsRefused::Load("day is NULL".to_owned())), "23514"),
            (LoadError::RolledBack(Epoch::new(5)), "40001"),
            (LoadError::NotNamed { epoch: Epoch::new(5), after }, "55P03"),
            (LoadError::Unknown(Epoch::new(5), "it was stopped".to_owned()), "08007"),
            (LoadError::Codes(CodesError::Dictionary(DictionaryError::OutOfView)), "57P03"),
        ] {
            assert_eq!(of_writing(&error).state.code(), code, "{error}");
        }
        for (error, code) in [
            (ReadError::NotServing { after }, "57P03"),
            (ReadError::NotListed { table: 7, after, last: String::new() }, "57P03"),
            (ReadError::NoTable(7), "42P01"),
            (ReadError::BelowSafe, "40001"),
        ] {
            assert_eq!(of_reading(&error).state.code(), code, "{error}");
        }
    }

    /// To break it: leave the address out of the hint.
    #[test]
    fn who_would_drain_a_node_elsewhere_is_told_where() {
        let address = Some("db1:7001".parse().unwrap());
        let elsewhere = of_change(&ChangeNodesError::Elsewhere { keeper: NodeId::new(1), address });
        assert_eq!(elsewhere.state.code(), "55000");
        assert!(elsewhere.hint.is_some_and(|hint| hint.contains("node 1") && hint.contains("db1:7001")));
        assert_eq!(of_change(&ChangeNodesError::HasKeeper(NodeId::new(1))).state.code(), "55000");
        assert_eq!(of_change(&ChangeNodesError::NoKeeper).state.code(), "57P03");
        let not_settled = ChangeNodesError::NotSettled { after: Duration::from_secs(30) };
        assert_eq!(of_change(&not_settled).state.code(), "57P03");
    }

    /// To break it: leave out what `of_recovery` says of a variant.
    #[test]
    fn who_would_go_on_without_lost_nodes_is_told_what_to_do() {
        let node = NodeId::new(3);
        for (why, words) in [
            (RecoverError::Unheard(vec![node]), "coeval cluster recover n1,n3"),
            (RecoverError::Lives(node), "no others"),
            (RecoverError::Unknown(node), "no others"),
            (RecoverError::LastReplica, "coeval restore"),
            (RecoverError::Founder(node), "coeval restore"),
            (RecoverError::Begun, "coeval cluster remove"),
        ] {
            let said = of_change(&ChangeNodesError::NotRecovered(why));
            assert_eq!(said.state.code(), "55000", "{}", said.message);
            assert!(said.hint.is_some_and(|hint| hint.contains(words)));
        }
        let elsewhere = of_change(&ChangeNodesError::Elsewhere { keeper: node, address: None });
        assert!(elsewhere.hint.is_some_and(|hint| hint.contains("coeval cluster recover n3")));
    }

    #[test]
    fn a_delete_elsewhere_names_the_node_for_it() {
        let refused = of_writing(&elsewhere());
        assert!(refused.hint.is_some_and(|hint| hint.contains("node 1") && hint.contains("db1:7001")));
    }
}
