// SPDX-License-Identifier: Apache-2.0
//! `coeval init`: a new database, with data to play with if that is asked for.

use crate::arguments::{Example, InitArguments};
use crate::directory::{self, Contents, look};
use crate::failure::Failure;
use crate::readable::grouped;
use coeval::Database;
use std::path::Path;
use std::time::Instant;

impl Example {
    /// The statements that make it.
    fn sql(self) -> &'static str {
        match self {
            Self::Shop => include_str!("init/shop.sql"),
            Self::Metrics => include_str!("init/metrics.sql"),
        }
    }

    /// Its tables, in the order in which a reader meets them.
    fn tables(self) -> &'static [&'static str] {
        match self {
            Self::Shop => &["customers", "products", "orders", "order_lines"],
            Self::Metrics => &["machines", "metrics"],
        }
    }

    /// A question to begin with.
    fn question(self) -> &'static str {
        match self {
            Self::Shop => {
                "SELECT p.category, count(*), sum(l.quantity * l.price) AS sales
  FROM order_lines l JOIN products p ON p.id = l.product_id
  GROUP BY p.category ORDER BY sales DESC;"
            }
            Self::Metrics => {
                "SELECT m.region, x.day, max(x.cpu), sum(x.requests)
  FROM metrics x JOIN machines m ON m.name = x.machine
  WHERE x.day = '2026-01-03' GROUP BY m.region, x.day ORDER BY m.region;"
            }
        }
    }
}

/// Makes the database, and says how to go on.
///
/// # Errors
/// If there is something in the directory already, or it cannot be written. What was made of an example that failed is there.
pub(crate) fn run(arguments: &InitArguments) -> Result<(), Failure> {
    let dir = &arguments.dir;
    match look(dir)? {
        Contents::Nothing => {}
        Contents::Database => {
            let dir = dir.display();
            return Err(Failure::Work(format!("{dir} holds a database already: coeval sql {dir} opens it")));
        }
        Contents::Remains | Contents::Foreign => {
            return Err(Failure::Work(format!("{} is not empty: take another directory", dir.display())));
        }
    }
    let database = directory::open_with(dir, directory::options())?;
    if let Some(example) = arguments.example {
        fill(&database, example)?;
    }
    say(dir, arguments.example);
    Ok(())
}

fn fill(database: &Database, example: Example) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut session = database.session();
    let failed = |error| Failure::work("cannot make the example", error);
    session.run(example.sql()).map_err(failed)?;
    for table in example.tables() {
        let counted = session.query(&format!("SELECT count(*) FROM {table}")).map_err(failed)?;
        println!("{table:<14}{:>10} rows", grouped(count_in(&counted)));
    }
    println!("in {:.1} s\n", begun.elapsed().as_secs_f64());
    Ok(())
}

/// The number in the only row of an answer.
fn count_in(batches: &[arrow::array::RecordBatch]) -> u64 {
    let numbers = batches.iter().filter_map(|batch| {
        let column = batch.column(0).as_any().downcast_ref::<arrow::array::Int64Array>()?;
        column.iter().flatten().next()
    });
    numbers.sum::<i64>().unsigned_abs()
}

fn say(dir: &Path, example: Option<Example>) {
    let dir = dir.display();
    println!("{dir} holds a database now:\n");
    println!("  coeval sql {dir}                       statements at the terminal");
    println!("  coeval serve {dir} --console 8432      for psql, drivers, and a page in the browser");
    if let Some(example) = example {
        println!("\nTry\n\n  {}", example.question());
    }
}
