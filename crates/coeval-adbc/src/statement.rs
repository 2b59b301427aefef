// SPDX-License-Identifier: Apache-2.0
//! A statement: a text of SQL or an ingestion, and the values that were bound to it.

use crate::binding::{Plans, Sets, miscounted};
use crate::client::{Client, Open};
use crate::errors::{misplaced, missing, of_database};
use crate::ingestion::{Lifetime, Target};
use crate::options;
use crate::panics::caught;
use crate::results::{Batches, Results};
use adbc_core::PartitionedResult;
use adbc_core::error::Result;
use adbc_core::options::{IngestMode, OptionStatement, OptionValue};
use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::{Field, Schema};
use coeval::{Exporter, Outcome, Prepared};
use std::str::FromStr;
use std::sync::Arc;

const BY_NAME: &str = "adbc.statement.bind_by_name";

/// A statement of a connection.
pub struct Statement {
    client: Arc<Client>,
    work: Work,
    target: Target,
    bound: Option<Batches>,
}

/// What executing it does.
enum Work {
    Nothing,
    Sql(Text),
    Ingestion,
}

/// A text of one or several statements.
struct Text {
    sql: String,
    plans: Plans,
    /// The statement without bound values, once it was asked for.
    prepared: Option<Prepared>,
}

impl Statement {
    pub(crate) fn new(client: Arc<Client>) -> Self {
        Self { client, work: Work::Nothing, target: Target::default(), bound: None }
    }

    fn text(&mut self) -> Result<&mut Text> {
        match &mut self.work {
            Work::Sql(text) => Ok(text),
            Work::Ingestion => Err(misplaced("the statement is an ingestion, and has no text")),
            Work::Nothing => Err(misplaced("the statement has no text")),
        }
    }

    /// Runs the text, with what was bound.
    fn run_text(&mut self) -> Result<Ran> {
        let client = Arc::clone(&self.client);
        let bound = self.bound.take();
        let text = self.text()?;
        client.run(|open| match (bound, &text.prepared) {
            (Some(bound), _) => text.run_bound(open, bound),
            (None, Some(prepared)) => {
                let wanted = prepared.parameter_types().len();
                if wanted > 0 {
                    return Err(miscounted(wanted, 0));
                }
                open.begin_if_due()?;
                let outcome = open.session()?.start_prepared(prepared, &[]);
                Ok(Ran::Once(outcome.map_err(|error| of_database(&error))?))
            }
            (None, None) => Ok(Ran::Once(open.start(&text.sql)?)),
        })
    }

    fn ingest(&mut self) -> Result<u64> {
        let bound = self.bound.take().ok_or_else(|| misplaced("no rows were bound for the ingestion"))?;
        self.client.run(|open| self.target.ingest(open, bound))
    }
}

/// What running a text has come to.
enum Ran {
    /// It ran once.
    Once(Outcome),
    /// It ran once for each of several sets of parameters, or for none.
    Often { schema: Schema, batches: Vec<RecordBatch>, count: Option<u64> },
}

impl Text {
    /// Runs the statement once for each row of values. If they are several, they are one transaction, and all that they
    /// return is kept until it is read.
    fn run_bound(&mut self, open: &mut Open, bound: Batches) -> Result<Ran> {
        open.begin_if_due()?;
        let prepared = self.plans.of_values(open, &self.sql, &bound.schema())?;
        let zone = open.session()?.settings().zone();
        let mut sets = Sets::new(bound, prepared.parameter_types(), zone);
        let schema = prepared.columns().map_or_else(Schema::empty, |columns| columns.as_ref().clone());
        let Some(first) = sets.next().transpose()? else {
            return Ok(Ran::Often { schema, batches: Vec::new(), count: Some(0) });
        };
        let Some(second) = sets.next().transpose()? else {
            let outcome = open.session()?.start_prepared(&prepared, &first);
            return Ok(Ran::Once(outcome.map_err(|error| of_database(&error))?));
        };
        let all = [first, second].into_iter().map(Ok).chain(sets);
        open.as_one(|open| {
            let (mut batches, mut count) = (Vec::new(), 0);
            for set in all {
                open.go_on()?;
                let session = open.session()?;
                let counted = if prepared.columns().is_some() {
                    session.query_prepared(&prepared, &set?).map(|rows| {
                        let count = rows.iter().map(RecordBatch::num_rows).sum::<usize>();
                        batches.extend(rows);
                        count as u64
                    })
                } else {
                    session.execute_prepared(&prepared, &set?)
                };
                count += counted.map_err(|error| of_database(&error))?;
            }
            Ok(Ran::Often { schema, batches, count: Some(count) })
        })
    }
}

impl adbc_core::Statement for Statement {
    fn bind(&mut self, batch: RecordBatch) -> Result<()> {
        self.bound = Some(crate::results::of_batch(batch));
        Ok(())
    }

    fn bind_stream(&mut self, reader: Box<dyn RecordBatchReader + Send>) -> Result<()> {
        self.bound = Some(reader);
        Ok(())
    }

    fn execute(&mut self) -> Result<Batches> {
        let (form, share) = (self.client.run(|open| Ok(open.text_form))?, self.client.share());
        if matches!(self.work, Work::Ingestion) {
            self.ingest()?;
            return Ok(Box::new(Results::collected(&Schema::empty(), Vec::new(), form, share)));
        }
        Ok(Box::new(match self.run_text()? {
            Ran::Once(outcome) => caught(|| Results::new(outcome, form, share))?,
            Ran::Often { schema, batches, .. } => Results::collected(&schema, batches, form, share),
        }))
    }

    fn execute_update(&mut self) -> Result<Option<i64>> {
        let count = if matches!(self.work, Work::Ingestion) {
            Some(self.ingest()?)
        } else {
            match self.run_text()? {
                Ran::Once(outcome) => caught(|| rows_of(outcome))?,
                Ran::Often { count, .. } => count,
            }
        };
        Ok(count.and_then(|count| i64::try_from(count).ok()))
    }

    fn execute_schema(&mut self) -> Result<Schema> {
        let client = Arc::clone(&self.client);
        let values = self.bound.as_ref().map(|bound| bound.schema());
        let text = self.text()?;
        client.run(|open| {
            let prepared = match values {
                Some(values) => text.plans.of_values(open, &text.sql, &values)?,
                None => text.plans.inferred(open, &text.sql)?,
            };
            let columns = prepared.columns().map(|columns| Exporter::new(columns, open.text_form));
            Ok(columns.map_or_else(Schema::empty, |columns| columns.schema().as_ref().clone()))
        })
    }

    fn execute_partitions(&mut self) -> Result<PartitionedResult> {
        missing("executing in partitions")
    }

    fn get_parameter_schema(&self) -> Result<Schema> {
        let Work::Sql(Text { prepared: Some(prepared), .. }) = &self.work else {
            return Err(misplaced("the statement is not prepared"));
        };
        // Parameters have numbers and no names.
        let fields = prepared.parameter_types().iter().map(|ty| Field::new("", ty.arrow(), true));
        let form = self.client.run(|open| Ok(open.text_form))?;
        Ok(Exporter::new(&Schema::new(fields.collect::<Vec<_>>()), form).schema().as_ref().clone())
    }

    fn prepare(&mut self) -> Result<()> {
        let client = Arc::clone(&self.client);
        let text = self.text()?;
        text.prepared = client.run(|open| text.plans.foreseen(open, &text.sql))?;
        Ok(())
    }

    fn set_sql_query(&mut self, query: impl AsRef<str>) -> Result<()> {
        let sql = query.as_ref().to_owned();
        self.work = Work::Sql(Text { sql, plans: Plans::default(), prepared: None });
        Ok(())
    }

    fn set_substrait_plan(&mut self, _plan: impl AsRef<[u8]>) -> Result<()> {
        missing("Substrait")
    }

    fn get_cancel_handle(&self) -> Box<dyn adbc_core::CancelHandle> {
        self.client.cancel_handle()
    }
}

/// How many rows an outcome is about, if it counts them. What is not read yet runs to its end.
fn rows_of(outcome: Outcome) -> Result<Option<u64>> {
    let reader = match outcome {
        Outcome::Done(tag) | Outcome::Values(tag, ..) => return Ok(tag.rows()),
        Outcome::Rows(reader) => reader,
    };
    if let Some(tag) = reader.tag() {
        return Ok(tag.rows());
    }
    let mut count = 0;
    for batch in reader {
        count += batch.map_err(|error| of_database(&error))?.num_rows() as u64;
    }
    Ok(Some(count))
}

impl adbc_core::Optionable for Statement {
    type Option = OptionStatement;

    fn set_option(&mut self, key: OptionStatement, value: OptionValue) -> Result<()> {
        let name = key.as_ref().to_owned();
        match key {
            OptionStatement::TargetTable => {
                self.target.table = options::text(&name, value)?;
                self.work = Work::Ingestion;
            }
            OptionStatement::IngestMode => {
                self.target.mode = Some(IngestMode::from_str(&options::text(&name, value)?)?);
            }
            OptionStatement::TargetCatalog => self.target.catalog = named(options::text(&name, value)?),
            OptionStatement::TargetDbSchema => self.target.schema = named(options::text(&name, value)?),
            OptionStatement::Temporary => {
                let is_temporary = options::switch(&name, &value)?;
                self.target.lifetime = if is_temporary { Lifetime::Temporary } else { Lifetime::Lasting };
            }
            OptionStatement::Incremental if !options::switch(&name, &value)? => {}
            OptionStatement::Other(other) if other == BY_NAME && !options::switch(&name, &value)? => {}
            _ => return Err(options::unknown(&name)),
        }
        Ok(())
    }

    fn get_option_string(&self, key: OptionStatement) -> Result<String> {
        let target = &self.target;
        let value = match &key {
            OptionStatement::TargetTable if matches!(self.work, Work::Ingestion) => {
                Some(target.table.clone())
            }
            OptionStatement::IngestMode => Some(target.mode.unwrap_or(IngestMode::Create).into()),
            OptionStatement::TargetCatalog => target.catalog.clone(),
            OptionStatement::TargetDbSchema => target.schema.clone(),
            OptionStatement::Temporary => Some(match target.lifetime {
                Lifetime::Temporary => options::ON.to_owned(),
                Lifetime::Lasting => options::OFF.to_owned(),
            }),
            OptionStatement::Incremental => Some(options::OFF.to_owned()),
            _ => None,
        };
        value.ok_or_else(|| options::unset(key.as_ref()))
    }

    options::texts_alone!();
}

/// A name that is given; an empty one stands for none.
fn named(name: String) -> Option<String> {
    (!name.is_empty()).then_some(name)
}
