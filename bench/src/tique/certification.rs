// SPDX-License-Identifier: Apache-2.0
//! The time of COMMIT by the size of the write set, with more and more versions in the cache; as a drawing if asked.

use super::clients::sum;
use super::engine::{Place, settings};
use crate::error::BenchError;
use crate::machine::{CpuWatch, measure_sync};
use crate::options::{Options, Population, Workload};
use crate::progress::Progress;
use crate::report::{Report, median};
use coeval_tique::{Database, Session};
use std::fmt::Write;
use std::path::Path;
use std::time::Instant;

/// Rows of a write set.
const WRITE_SETS: [u64; 5] = [1, 10, 100, 1_000, 10_000];
/// Versions in the cache; each stands in a write set too, as no checkpoint has removed them.
const CACHES: [u64; 4] = [0, 1_000, 10_000, 50_000];
/// How often a commit is timed.
const COMMITS: usize = 5;
/// Rows of one transaction that fills the cache.
const FILLING: u64 = 1_000;

/// Runs the experiment. It takes as long as it takes.
///
/// # Errors
/// If the engine is not there or refuses something.
pub(super) fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    let tiny = options.population == Population::Tiny;
    let scale = if tiny { 100 } else { 1 };
    let place = Place::new(options)?;
    let sync = measure_sync(place.path())?;
    let engine = place.engine()?;
    let database = Database::open(engine.clone(), settings(options, 0))?;
    let mut session = database.session()?;
    session.execute("CREATE TABLE counters (k bigint PRIMARY KEY, n bigint NOT NULL)")?;
    let mut report = Report::new(Workload::Tique, options, CACHES[CACHES.len() - 1] / scale);
    report.note("engine", engine.dialect().name);
    let (cpu, mut next) = (CpuWatch::start(), 0);
    let mut lines = Vec::new();
    for versions in CACHES.map(|versions| versions / scale) {
        progress.begin("commits", None);
        // A run before has left versions of its own.
        database.checkpoint()?;
        while (database.cached_versions() as u64) < versions {
            insert(&mut session, &mut next, FILLING.min(versions))?;
        }
        let mut line = Vec::new();
        for size in WRITE_SETS.map(|size| (size / scale).max(1)) {
            let mut times = Vec::with_capacity(COMMITS);
            for _ in 0..COMMITS {
                times.push(insert(&mut session, &mut next, size)?);
            }
            let time = median(&mut times);
            report.figure(format!("commit_ms_{versions}_cached_{size}_rows"), time);
            line.push((size as f64, time));
        }
        lines.push((format!("{versions} versions in the cache"), line));
        progress.end();
    }
    report.check("counters_lost_or_doubled", sum(&mut session)?.abs_diff(next));
    if let Some(path) = &options.out {
        draw(&lines, path)?;
    }
    report.environment(cpu.foreign_cores(), sync);
    Ok(report)
}

/// Inserts new rows in a transaction; how long its COMMIT took, in milliseconds.
fn insert(session: &mut Session, next: &mut u64, rows: u64) -> Result<f64, BenchError> {
    let values: Vec<String> = (*next..*next + rows).map(|k| format!("({k}, 1)")).collect();
    *next += rows;
    session.execute("BEGIN")?;
    session.execute(&format!("INSERT INTO counters VALUES {}", values.join(", ")))?;
    let began = Instant::now();
    session.execute("COMMIT")?;
    Ok(began.elapsed().as_secs_f64() * 1e3)
}

/// The drawing, in its own units.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const MARGIN: f64 = 60.0;
const COLOURS: [&str; 4] = ["#888888", "#0055aa", "#cc6600", "#aa0044"];

/// A line: its name, and its points.
type Line = (String, Vec<(f64, f64)>);

/// Writes the lines as SVG, both axes in powers of ten.
fn draw(lines: &[Line], path: &Path) -> Result<(), BenchError> {
    let all = || lines.iter().flat_map(|(_, points)| points);
    let power = |value: f64| value.max(1e-3).log10();
    let (most_x, least_y) = (
        all().map(|point| power(point.0)).fold(0.0, f64::max).max(1.0),
        all().map(|point| power(point.1)).fold(f64::MAX, f64::min).floor(),
    );
    let most_y = all().map(|point| power(point.1)).fold(least_y + 1.0, f64::max).ceil();
    let x = |value: f64| MARGIN + power(value) / most_x * (WIDTH - 2.0 * MARGIN);
    let y = |value: f64| {
        HEIGHT - MARGIN - (power(value) - least_y) / (most_y - least_y) * (HEIGHT - 2.0 * MARGIN)
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let mut line = |text: String| writeln!(svg, "{text}").expect("a string takes what is written");
    for power in least_y as i32..=most_y as i32 {
        let (value, right) = (10_f64.powi(power), WIDTH - MARGIN);
        let y = y(value);
        line(format!("<path d=\"M{MARGIN} {y:.1}H{right}\" stroke=\"#dddddd\"/>"));
        line(format!("<text x=\"{}\" y=\"{y:.1}\" text-anchor=\"end\">{value} ms</text>", MARGIN - 6.0));
    }
    for power in 0..=most_x as i32 {
        let value = 10_f64.powi(power);
        let (x, below) = (x(value), HEIGHT - MARGIN + 16.0);
        line(format!("<text x=\"{x:.1}\" y=\"{below}\" text-anchor=\"middle\">{value} rows</text>"));
    }
    for (place, (name, points)) in lines.iter().enumerate() {
        let colour = COLOURS[place % COLOURS.len()];
        let steps: Vec<String> =
            points.iter().map(|point| format!("{:.1} {:.1}", x(point.0), y(point.1))).collect();
        line(format!(
            "<path d=\"M{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            steps.join("L")
        ));
        let below = 20.0 + 14.0 * place as f64;
        line(format!("<text x=\"{}\" y=\"{below}\" fill=\"{colour}\">{name}</text>", MARGIN + 10.0));
    }
    svg.push_str("</svg>\n");
    std::fs::write(path, svg).map_err(|source| BenchError::file(path, source))
}
