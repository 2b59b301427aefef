// SPDX-License-Identifier: Apache-2.0
//! `coeval cluster`: how it stands with the nodes over which brick tables are spread, as the server of one of them says; and what is to
//! become of one of them.

use crate::arguments::{
    AskedNodeArguments, ClusterArguments, ClusterCommand, ClusterRecoverArguments, ClusterStatusArguments,
    NodeNumbers,
};
use crate::directory::{self, Contents, look, no_database};
use crate::failure::Failure;
use crate::holding_server::Order;
use crate::readable::grouped;
use crate::remote::{Server, reason};
use crate::secret_file::secret_in;
use coeval::Database;
use coeval_replica::PrimaryAddress;
use std::fmt::Write;
use std::path::Path;

/// What the server is asked.
const SQL: &str = "SELECT node, address, state, has_keeper, is_own, connection, queued_bytes, last_error, copied_bytes, bricks, \
     rows, bricks_to_come, has_answered FROM coeval_cluster_nodes ORDER BY node";
/// What stands above its answer.
const HEADINGS: [&str; 9] =
    ["node", "address", "state", "keeper", "connection", "waiting", "bricks", "rows", "to come"];

/// How lines begin that say what differs between replicas.
const DIFFERS: &str = "differs: ";

/// Does what is asked about a cluster.
///
/// # Errors
/// If no server of a node answers, it is a node of none, or the cluster does not do what is asked.
pub(crate) fn run(arguments: &ClusterArguments) -> Result<(), Failure> {
    match &arguments.command {
        ClusterCommand::Status(arguments) => status(arguments),
        ClusterCommand::Check(arguments) => check(&arguments.at),
        ClusterCommand::Drain(arguments) => {
            let node = arguments.node;
            asked(&arguments.at, &format!("SELECT coeval_cluster_drain({node})"))?;
            println!(
                "Node {node} gives its bricks to the others: coeval cluster status shows it as drained once that is done."
            );
            Ok(())
        }
        ClusterCommand::Remove(arguments) => {
            let node = arguments.node;
            asked(&arguments.at, &format!("SELECT coeval_cluster_remove({node})"))?;
            println!("Node {node} is out of the cluster for good.");
            Ok(())
        }
        ClusterCommand::Recover(arguments) => recover(arguments),
    }
}

/// What the server of a node answers.
fn asked(at: &AskedNodeArguments, sql: &str) -> Result<Vec<Vec<Option<String>>>, Failure> {
    let address = address(at, sql)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::work("cannot start a runtime", error))?;
    let failed = |error: &tokio_postgres::Error| {
        // The hint says where to ask, if that is elsewhere.
        let hint = error.as_db_error().and_then(|said| said.hint());
        let hint = hint.map_or_else(String::new, |hint| format!("\n{hint}"));
        Failure::Work(format!("{address}: {}{hint}", reason(error)))
    };
    runtime.block_on(async {
        let server = Server::connect(&address).await?;
        server.ask(sql).await.map_err(|error| failed(&error))
    })
}

/// Has a cluster go on without lost nodes, if it was said that this may give up something.
fn recover(arguments: &ClusterRecoverArguments) -> Result<(), Failure> {
    let ClusterRecoverArguments { nodes: NodeNumbers(nodes), at, accept_loss } = arguments;
    let lost = nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if !accept_loss {
        return Err(Failure::Usage(
            "loads that were acknowledged when only the lost nodes took part would be given up: --accept-loss says that they may be"
                .to_owned(),
        ));
    }
    asked(at, &format!("SELECT coeval_cluster_recover({lost})"))?;
    println!(
        "The cluster goes on without {}. Loads that were decided when only lost nodes took part are given up: load again what is \
         missing. Never start a lost node again with its directory.",
        if nodes.len() == 1 { format!("node {lost}") } else { format!("nodes {lost}") }
    );
    Ok(())
}

fn status(arguments: &ClusterStatusArguments) -> Result<(), Failure> {
    let rows = asked(&arguments.at, SQL)?;
    if rows.is_empty() {
        let message = "the server is no node of a cluster: coeval serve --cluster makes one";
        return Err(Failure::Work(message.to_owned()));
    }
    print!("{}", shown(&rows));
    Ok(())
}

/// Has the server of a node compare all replicas of all bricks.
fn check(at: &AskedNodeArguments) -> Result<(), Failure> {
    let rows = asked(at, "SELECT coeval_cluster_check()")?;
    let said = rows.into_iter().next().and_then(|row| row.into_iter().next().flatten()).unwrap_or_default();
    println!("{said}");
    if said.lines().any(|line| line.starts_with(DIFFERS)) { Err(Failure::Said) } else { Ok(()) }
}

/// Where the server is. `by_hand` is what may be asked in its place.
fn address(at: &AskedNodeArguments, by_hand: &str) -> Result<PrimaryAddress, Failure> {
    let AskedNodeArguments { dir, asked } = at;
    let password = asked.password_file.as_deref().map(secret_in).transpose()?;
    match (&asked.server, dir) {
        (Some(words), _) => {
            let mut address =
                PrimaryAddress::parse(words).map_err(|error| Failure::Usage(error.to_string()))?;
            if let Some(user) = &asked.user {
                user.clone_into(&mut address.user);
            }
            address.password = password.or(address.password);
            Ok(address)
        }
        (None, Some(dir)) => {
            let order = Order { command: "coeval cluster", dir, by_hand };
            order.address(asked, password, &holder(dir)?)
        }
        (None, None) => Err(Failure::Usage("a directory or --server is needed".to_owned())),
    }
}

/// Who has the directory open.
fn holder(dir: &Path) -> Result<coeval::Holder, Failure> {
    if matches!(look(dir)?, Contents::Nothing | Contents::Foreign) {
        return Err(no_database(dir));
    }
    // Looks at it only if nobody has it open.
    match Database::former_primary(dir) {
        Err(error) => match directory::holder(&error) {
            Some(holder) => Ok(holder.clone()),
            None => Err(Failure::work(format_args!("cannot look at {}", dir.display()), error)),
        },
        Ok(_) => Err(Failure::Work(format!(
            "{} is not served: coeval serve --cluster makes it a node, and --server names another one to ask",
            dir.display()
        ))),
    }
}

/// A table of the nodes with what of the bricks each has, and behind it what went wrong on the way to those that are not connected, and
/// how much has come to the one that was asked. Where nobody has answered in time, that stands in place of numbers.
fn shown(rows: &[Vec<Option<String>>]) -> String {
    let cell = |row: &[Option<String>], place: usize| {
        row.get(place).and_then(Option::as_deref).unwrap_or_default().to_owned()
    };
    let is_true = |row: &[Option<String>], place: usize| cell(row, place) == "t";
    let mut table: Vec<[String; 9]> = vec![HEADINGS.map(str::to_owned)];
    let mut errors = String::new();
    for row in rows {
        let own = if is_true(row, 4) { "this one".to_owned() } else { cell(row, 5) };
        let keeper = if is_true(row, 3) { "here" } else { "" };
        let waiting = if is_true(row, 4) { String::new() } else { format!("{} bytes", cell(row, 6)) };
        let [bricks, in_them, to_come] =
            [9, 10, 11].map(|place| counted(row.get(place).and_then(Option::as_deref)));
        let bricks = if cell(row, 12) == "f" { "no answer".to_owned() } else { bricks };
        let keeper = keeper.to_owned();
        table.push([
            cell(row, 0),
            cell(row, 1),
            cell(row, 2),
            keeper,
            own,
            waiting,
            bricks,
            in_them,
            to_come,
        ]);
        if let Some(error) = row.get(7).and_then(Option::as_deref) {
            // Writing to a String cannot fail.
            let _ = writeln!(errors, "node {}: {error}", cell(row, 0));
        }
        if let Some(bytes) = row.get(8).and_then(Option::as_deref).filter(|bytes| *bytes != "0") {
            let _ = writeln!(errors, "node {}: {bytes} bytes of bricks have come to it", cell(row, 0));
        }
    }
    let width = |place: usize| table.iter().map(|line| line[place].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEADINGS.len()).map(width).collect();
    let mut text = String::new();
    for line in &table {
        let cells = line.iter().zip(widths.iter().copied()).map(|(cell, width)| format!("{cell:<width$}"));
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text + &errors
}

/// A count as people read it; nothing where nobody has said.
fn counted(text: Option<&str>) -> String {
    text.and_then(|text| text.parse::<u64>().ok()).map(grouped).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_stand_below_each_other_and_errors_behind_them() {
        let row = |cells: &str| {
            cells.split('|').map(|cell| (!cell.is_empty()).then(|| cell.to_owned())).collect::<Vec<_>>()
        };
        let rows = [
            row("1|db1:7001|live|t|f|connected|120|||96|1200000|0|t"),
            row("2|db2.example:7001|joining|f|t||0||4096|12|150000|84|t"),
            row("3|db3:7001|away|f|f|pausing|0|db3:7001: not there|||||"),
            row("4|db4:7001|live|f|f|connected|0||||||f"),
        ];
        let expected = "\
node  address           state    keeper  connection  waiting    bricks     rows       to come
1     db1:7001          live     here    connected   120 bytes  96         1,200,000  0
2     db2.example:7001  joining          this one               12         150,000    84
3     db3:7001          away             pausing     0 bytes
4     db4:7001          live             connected   0 bytes    no answer
node 2: 4096 bytes of bricks have come to it
node 3: db3:7001: not there
";
        assert_eq!(shown(&rows), expected);
    }
}
