// SPDX-License-Identifier: Apache-2.0
//! Rows of a chunk merged with their changes, in key order: columns of the chunk and columns of the new rows
//! become the columns of a batch.
//!
//! Most changes are updates, which keep every row in its place: then a column of numbers is copied and the new
//! values are written over the old ones. Everything else is gathered by index from both sides.

use crate::pieces::WindowChanges;
use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanBufferBuilder, PrimitiveArray, downcast_primitive,
};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::interleave;
use arrow::error::ArrowError;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Which side a row is taken from, and where it lies there.
type Place = (usize, usize);

const CHUNK: usize = 0;
const NEW: usize = 1;

/// The merge of some rows of a chunk that follow one another with what happens to them.
pub(super) struct Merge<'a> {
    window: Range<usize>,
    changes: WindowChanges<'a>,
    /// The rows of the outcome, when they are first asked for.
    places: OnceLock<Vec<Place>>,
}

impl<'a> Merge<'a> {
    pub(super) fn new(window: Range<usize>, changes: WindowChanges<'a>) -> Self {
        Self { window, changes, places: OnceLock::new() }
    }

    /// How many rows come out.
    pub(super) fn rows(&self) -> usize {
        self.window.len() + self.changes.inserted.len() - self.changes.deleted.len()
    }

    /// A column of the outcome, out of the chunk's whole column and that of the new rows.
    ///
    /// # Errors
    /// If the columns are of different types.
    pub(super) fn column(&self, chunk: &ArrayRef, new: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        macro_rules! patch {
            ($type:ty) => {
                Ok(Arc::new(self.patched::<$type>(chunk.as_primitive(), new.as_primitive())))
            };
        }
        if self.changes.is_empty() {
            return Ok(chunk.slice(self.window.start, self.window.len()));
        }
        if !self.changes.keeps_places() || chunk.data_type() != new.data_type() {
            return interleave(&[chunk.as_ref(), new.as_ref()], self.places());
        }
        downcast_primitive! {
            chunk.data_type() => (patch),
            _ => interleave(&[chunk.as_ref(), new.as_ref()], self.places()),
        }
    }

    /// The chunk's values with the new ones written over those that they replace.
    fn patched<T: ArrowPrimitiveType>(
        &self,
        chunk: &PrimitiveArray<T>,
        new: &PrimitiveArray<T>,
    ) -> PrimitiveArray<T> {
        let start = self.window.start;
        let mut values = chunk.values()[self.window.clone()].to_vec();
        for placed in self.changes.replaced {
            values[placed.at as usize - start] = new.values()[placed.row as usize];
        }
        let nulls = (chunk.null_count() + new.null_count() > 0).then(|| {
            let mut valid = BooleanBufferBuilder::new(self.window.len());
            match chunk.nulls() {
                Some(nulls) => {
                    valid.append_buffer(&nulls.inner().slice(start, self.window.len()));
                }
                None => valid.append_n(self.window.len(), true),
            }
            for placed in self.changes.replaced {
                valid.set_bit(placed.at as usize - start, new.is_valid(placed.row as usize));
            }
            NullBuffer::new(valid.finish())
        });
        PrimitiveArray::new(ScalarBuffer::from(values), nulls).with_data_type(chunk.data_type().clone())
    }

    /// Where each row of the outcome comes from.
    fn places(&self) -> &[Place] {
        self.places.get_or_init(|| {
            let mut places = Vec::with_capacity(self.rows());
            let WindowChanges { mut replaced, mut inserted, mut deleted } = self.changes;
            for at in self.window.clone() {
                while let [first, rest @ ..] = inserted
                    && first.at as usize == at
                {
                    places.push((NEW, first.row as usize));
                    inserted = rest;
                }
                match (replaced, deleted) {
                    ([first, rest @ ..], _) if first.at as usize == at => {
                        places.push((NEW, first.row as usize));
                        replaced = rest;
                    }
                    (_, [first, rest @ ..]) if *first as usize == at => deleted = rest,
                    _ => places.push((CHUNK, at)),
                }
            }
            places.extend(inserted.iter().map(|placed| (NEW, placed.row as usize)));
            assert_eq!(places.len(), self.rows(), "every change belongs to a row of the window");
            places
        })
    }
}
