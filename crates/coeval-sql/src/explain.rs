// SPDX-License-Identifier: Apache-2.0
//! EXPLAIN and EXPLAIN ANALYZE: which path runs a statement, and what it reads.

mod document;

use crate::context::{Execute, StatementContext};
use crate::error::SqlError;
use crate::point::PointPlan;
use crate::query::{self, Runnable};
use crate::result::{CommandTag, RowSet, StatementResult};
use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use coeval_store::ColumnType;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::sql::sqlparser::ast::{
    AnalyzeFormat, AnalyzeFormatKind, Expr, Query, Statement, UtilityOption, Value,
};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What EXPLAIN is asked for.
struct Request<'a> {
    statement: &'a Statement,
    analyze: bool,
    verbose: bool,
    is_json: bool,
}

/// What EXPLAIN tells.
#[derive(Default)]
struct Explained {
    /// The plan, what is below a line indented by two blanks more.
    lines: Vec<String>,
    /// What ANALYZE has measured.
    measured: Option<Measured>,
}

struct Measured {
    planning: Duration,
    execution: Duration,
    tag: CommandTag,
}

impl Explained {
    fn measure(&mut self, planning: Duration, total: Duration, tag: CommandTag) {
        self.measured = Some(Measured { planning, execution: total.saturating_sub(planning), tag });
    }
}

/// Runs EXPLAIN. With ANALYZE the statement itself runs too, by `run`, and its effects stay.
///
/// # Errors
/// As the statement; `0A000` for formats other than text and JSON.
pub(crate) fn execute(
    context: &mut StatementContext<'_>,
    statement: &Statement,
    run: Execute,
) -> Result<StatementResult, SqlError> {
    let request = request(statement)?;
    let started = Instant::now();
    let mut explained = Explained::default();
    match crate::tique::explain(context, request.statement)? {
        Some(lines) => {
            explained.lines = lines;
            analyze(context, &request, run, started, &mut explained)?;
        }
        None => explain_here(context, &request, run, started, &mut explained)?,
    }
    if request.is_json { document::row(&explained) } else { rows(&explained) }
}

/// Runs the statement and measures it, if that was asked for.
fn analyze(
    context: &mut StatementContext<'_>,
    request: &Request<'_>,
    run: Execute,
    started: Instant,
    explained: &mut Explained,
) -> Result<(), SqlError> {
    if request.analyze {
        let planned = started.elapsed();
        let result = run(context, request.statement)?;
        explained.measure(planned, started.elapsed(), result.tag);
    }
    Ok(())
}

/// Of a statement that runs in this database.
fn explain_here(
    context: &mut StatementContext<'_>,
    request: &Request<'_>,
    run: Execute,
    started: Instant,
    explained: &mut Explained,
) -> Result<(), SqlError> {
    match (PointPlan::compile_to_run(context, request.statement), request.statement) {
        (Some(plan), _) => {
            explained.lines.extend(plan.explain());
            if request.analyze {
                let planned = started.elapsed();
                let result = match plan.execute(context)? {
                    Some(result) => result,
                    None => {
                        let note = "More rows than the point path is for: the general path ran";
                        explained.lines.push(note.to_owned());
                        run(context, request.statement)?
                    }
                };
                explained.measure(planned, started.elapsed(), result.tag);
            }
        }
        (None, Statement::Query(body)) if crate::dml::is_plain_query(body) => {
            explain_query(context, request, body, explained)?
        }
        (None, other) => {
            explained.lines.push(format!("General path: {}", crate::names::statement_name(other)));
            analyze(context, request, run, started, explained)?;
        }
    }
    Ok(())
}

/// The column of what EXPLAIN tells.
pub(crate) fn columns(statement: &Statement) -> SchemaRef {
    let is_json = request(statement).is_ok_and(|request| request.is_json);
    let ty = if is_json { ColumnType::Json } else { ColumnType::Text };
    let field = Field::new("QUERY PLAN", DataType::Utf8, true);
    Arc::new(Schema::new(vec![crate::types::marked_field(field, ty)]))
}

fn explain_query(
    context: &mut StatementContext<'_>,
    request: &Request<'_>,
    body: &Query,
    explained: &mut Explained,
) -> Result<(), SqlError> {
    let started = Instant::now();
    let types: Vec<_> = context.parameter_types.iter().copied().map(Some).collect();
    let planned = query::plan(context, body, &types)?;
    let Runnable { physical, task, loan: _loan } = query::optimized_physical_plan(context, &planned)?;
    let planning = started.elapsed();
    let lines = &mut explained.lines;
    lines.push("DataFusion path:".to_owned());
    if !request.analyze {
        push_plan(&DisplayableExecutionPlan::new(physical.as_ref()), request, lines);
        return Ok(());
    }
    let (physical, rows) = query::run_to_measure(context, physical, task)?;
    push_plan(&DisplayableExecutionPlan::with_metrics(physical.as_ref()), request, lines);
    explained.measure(planning, started.elapsed(), CommandTag::Select(rows));
    Ok(())
}

fn push_plan(plan: &DisplayableExecutionPlan<'_>, request: &Request<'_>, lines: &mut Vec<String>) {
    let text = plan.indent(request.verbose).to_string();
    // Those that only look whether the statement is to end say nothing.
    let told = text.lines().filter(|line| !line.trim_start().starts_with(query::WATCHED));
    lines.extend(told.map(|line| format!("  {line}")));
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn request(statement: &Statement) -> Result<Request<'_>, SqlError> {
    let Statement::Explain { analyze, verbose, statement, format, options, query_plan, estimate, .. } =
        statement
    else {
        return Err(SqlError::internal("EXPLAIN was expected"));
    };
    let mut request = Request { statement, analyze: *analyze, verbose: *verbose, is_json: false };
    if *query_plan || *estimate {
        return Err(SqlError::unsupported("this form of EXPLAIN"));
    }
    request.is_json = match format {
        None => false,
        Some(AnalyzeFormatKind::Keyword(format) | AnalyzeFormatKind::Assignment(format)) => match format {
            AnalyzeFormat::TEXT => false,
            AnalyzeFormat::JSON => true,
            other => return Err(other_format(&other.to_string())),
        },
    };
    for option in options.iter().flatten() {
        apply(option, &mut request)?;
    }
    Ok(request)
}

fn other_format(name: &str) -> SqlError {
    SqlError::unsupported(format_args!("EXPLAIN in the format {}", name.to_lowercase()))
        .with_hint("Use the format text or json.")
}

fn apply(option: &UtilityOption, request: &mut Request<'_>) -> Result<(), SqlError> {
    let on = match &option.arg {
        None => true,
        Some(Expr::Value(value)) => match &value.value {
            Value::Boolean(on) => *on,
            other => !matches!(other.to_string().to_lowercase().as_str(), "0" | "'off'" | "'false'"),
        },
        Some(other) => !matches!(other.to_string().to_lowercase().as_str(), "off" | "false"),
    };
    match option.name.value.to_lowercase().as_str() {
        "analyze" => request.analyze = on,
        "verbose" => request.verbose = on,
        "costs" | "timing" | "summary" | "buffers" | "settings" | "wal" => {}
        "format" => {
            let name = option.arg.as_ref().map(ToString::to_string).unwrap_or_default();
            request.is_json = match name.trim_matches('\'').to_lowercase().as_str() {
                "text" => false,
                "json" => true,
                other => return Err(other_format(other)),
            };
        }
        other => return Err(SqlError::unsupported(format_args!("EXPLAIN option {other}"))),
    }
    Ok(())
}

fn rows(explained: &Explained) -> Result<StatementResult, SqlError> {
    let mut lines = explained.lines.clone();
    if let Some(measured) = &explained.measured {
        lines.push(format!("Planning time: {:.3} ms", milliseconds(measured.planning)));
        lines.push(format!("Execution time: {:.3} ms", milliseconds(measured.execution)));
        lines.push(format!("Result: {}", measured.tag));
    }
    result(lines, ColumnType::Text)
}

/// A row for each text.
fn result(texts: Vec<String>, ty: ColumnType) -> Result<StatementResult, SqlError> {
    let field = Field::new("QUERY PLAN", DataType::Utf8, false);
    let schema = Arc::new(Schema::new(vec![crate::types::marked_field(field, ty)]));
    let column: ArrayRef = Arc::new(texts.into_iter().map(Some).collect::<StringArray>());
    let batch = RecordBatch::try_new(schema.clone(), vec![column])?;
    let rows = RowSet::new(schema, vec![batch]);
    Ok(StatementResult { tag: CommandTag::Plain("EXPLAIN"), rows: Some(rows) })
}
