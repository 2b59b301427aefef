// SPDX-License-Identifier: Apache-2.0
//! What the drawings of reports have in common: a white sheet with a margin, as SVG.

use crate::error::BenchError;
use std::path::Path;

/// In the drawing's own units.
pub(crate) const WIDTH: f64 = 640.0;
/// On all sides, for the names of axes.
pub(crate) const MARGIN: f64 = 60.0;

/// A drawing that is being made.
pub(crate) struct Drawing {
    svg: String,
}

impl Drawing {
    /// An empty sheet.
    pub(crate) fn new(height: f64) -> Self {
        let svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
             font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        Self { svg }
    }

    /// Adds an element.
    pub(crate) fn add(&mut self, element: impl AsRef<str>) {
        self.svg.push_str(element.as_ref());
        self.svg.push('\n');
    }

    /// Writes the file.
    ///
    /// # Errors
    /// If that fails.
    pub(crate) fn write(mut self, path: &Path) -> Result<(), BenchError> {
        self.add("</svg>");
        std::fs::write(path, self.svg).map_err(|error| BenchError::file(path, error))
    }
}
