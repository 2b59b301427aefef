// SPDX-License-Identifier: Apache-2.0
//! `coeval serve --engine`: new tables are kept in an engine, through a server of that name.

use crate::arguments::ServeArguments;
use crate::failure::Failure;
use coeval::{Database, Session};

/// The server that `--engine` makes.
const SERVER: &str = "engine";

/// Makes the server if it is not there; what sessions begin with, so that their tables go to it.
///
/// # Errors
/// If the engine cannot be opened, or the directory's tables are in another one.
pub(crate) fn serve_from(
    database: &Database,
    engine: &str,
    arguments: &ServeArguments,
) -> Result<Vec<(String, String)>, Failure> {
    let mut options = arguments.engine_options.clone();
    // PostgreSQL's data is its server's.
    let has_place = engine == "postgresql" || options.iter().any(|(name, _)| name == "path");
    if let (Some(dir), false) = (&arguments.dir, has_place) {
        options.push(("path".to_owned(), dir.join(SERVER).to_string_lossy().into_owned()));
    }
    let options: Vec<String> = options
        .iter()
        .map(|(name, value)| format!("{} {}", quoted(name, '"'), quoted(value, '\'')))
        .collect();
    let options =
        if options.is_empty() { String::new() } else { format!(" OPTIONS ({})", options.join(", ")) };
    let sql = format!("CREATE SERVER IF NOT EXISTS {SERVER} ENGINE {}{options}", quoted(engine, '"'));
    let failed = |error| Failure::work(format_args!("cannot serve from {engine}"), error);
    let mut session = database.session();
    session.run(&sql).map_err(failed)?;
    // Everybody's new tables go there.
    session.run(&format!("GRANT USAGE ON FOREIGN SERVER {SERVER} TO PUBLIC")).map_err(failed)?;
    let is_same =
        format!("SELECT 1 FROM tique.servers WHERE name = '{SERVER}' AND engine = {}", quoted(engine, '\''));
    if rows(&mut session, &is_same).map_err(failed)? == 0 {
        return Err(Failure::Work(format!("the directory's tables are in another engine than {engine}")));
    }
    let settings = [("coeval.table_server", SERVER), ("default_transaction_isolation", "repeatable read")];
    Ok(settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec())
}

fn rows(session: &mut Session, sql: &str) -> Result<usize, coeval::Error> {
    Ok(session.query(sql)?.iter().map(|batch| batch.num_rows()).sum())
}

fn quoted(text: &str, quote: char) -> String {
    format!("{quote}{}{quote}", text.replace(quote, &format!("{quote}{quote}")))
}
