// SPDX-License-Identifier: Apache-2.0
//! What a table takes of memory over time, as a drawing: Figures 6 and 7.

use crate::drawing::{Drawing, MARGIN, WIDTH};
use crate::error::BenchError;
use std::fmt::Write;
use std::path::Path;

/// How it looked at a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Since the first load.
    pub(super) seconds: f64,
    pub(super) rows: u64,
    /// Of the epochs vectors, by capacity.
    pub(super) epochs_bytes: u64,
}

/// In the drawing's own units.
const HEIGHT: f64 = 320.0;

/// Powers of ten that the vertical axis has, in bytes.
const LEAST_POWER: f64 = 3.0;
const GREATEST_POWER: f64 = 10.0;

/// A line of the drawing: what it shows, its colour, and its bytes at a moment.
type Line = (&'static str, &'static str, fn(&Sample) -> f64);

const LINES: [Line; 3] = [
    ("values, 8 bytes a row", "#888888", |sample| sample.rows as f64 * 8.0),
    ("two timestamps, 16 bytes a row", "#cc6600", |sample| sample.rows as f64 * 16.0),
    ("epochs vectors", "#0055aa", |sample| sample.epochs_bytes as f64),
];

/// Writes the samples of a table of one column as SVG, bytes in powers of ten over seconds.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn draw(samples: &[Sample], path: &Path) -> Result<(), BenchError> {
    let last = samples.last().map_or(1.0, |sample| sample.seconds.max(0.001));
    let x = |seconds: f64| MARGIN + seconds / last * (WIDTH - 2.0 * MARGIN);
    let y = |bytes: f64| {
        let power = bytes.max(1.0).log10().clamp(LEAST_POWER, GREATEST_POWER);
        HEIGHT - MARGIN - (power - LEAST_POWER) / (GREATEST_POWER - LEAST_POWER) * (HEIGHT - 2.0 * MARGIN)
    };
    let mut drawing = Drawing::new(HEIGHT);
    let mut line = |text: String| drawing.add(text);
    let names = ["1 kB", "10 kB", "100 kB", "1 MB", "10 MB", "100 MB", "1 GB", "10 GB"];
    for (power, name) in (LEAST_POWER as i32..).zip(names) {
        let y = y(10_f64.powi(power));
        line(format!(
            "<path d=\"M{MARGIN} {y:.1}H{:.1}\" stroke=\"#dddddd\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">\
             {name}</text>",
            WIDTH - MARGIN,
            MARGIN - 6.0,
            y + 4.0
        ));
    }
    line(format!("<text x=\"{MARGIN}\" y=\"{:.1}\">0 s</text>", HEIGHT - MARGIN + 16.0));
    let end = (WIDTH - MARGIN, HEIGHT - MARGIN + 16.0);
    line(format!("<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{last:.1} s</text>", end.0, end.1));
    for (place, (name, colour, bytes)) in LINES.iter().enumerate() {
        let mut points = String::new();
        for sample in samples {
            write!(points, "{:.1},{:.1} ", x(sample.seconds), y(bytes(sample)))
                .expect("a string takes everything");
        }
        line(format!("<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"));
        let left = MARGIN + 180.0 * place as f64;
        line(format!("<text x=\"{left:.1}\" y=\"30\" fill=\"{colour}\">{name}</text>"));
    }
    drawing.write(path)
}
