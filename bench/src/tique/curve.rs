// SPDX-License-Identifier: Apache-2.0
//! Times by size, as a drawing.

use crate::drawing::{Drawing, MARGIN, WIDTH};
use crate::error::BenchError;
use std::path::Path;

/// In the drawing's own units.
const HEIGHT: f64 = 360.0;
const COLOURS: [&str; 4] = ["#888888", "#0055aa", "#cc6600", "#aa0044"];

/// A line: its name, and its points.
pub(super) type Line = (String, Vec<(f64, f64)>);

/// Writes the lines as SVG, both axes in powers of ten.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn draw(lines: &[Line], path: &Path) -> Result<(), BenchError> {
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
    let mut drawing = Drawing::new(HEIGHT);
    let mut line = |text: String| drawing.add(text);
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
    drawing.write(path)
}
