// SPDX-License-Identifier: Apache-2.0
//! Rows with texts: who loads them gets codes first, who gets rows gets the texts of their codes first, and who reads them gets texts.

use super::codes::bounds_of;
use super::engine::Engine;
use super::error::{CodesError, LoadError, ReadError};
use super::life::Life;
use crate::brick_change::BrickChange;
use crate::brick_rows::BrickRows;
use crate::tables::{RoutedBatch, RoutedRows, RowsOf, RowsRefused, TextRows};
use crate::texts::{ColumnTexts, NoText, RowCodes, RowTexts};
use arrow::array::RecordBatch;
use bytes::Bytes;
use coeval_txn::cluster::{BrickAddress, Code, DictionaryError, DictionaryId, Purpose, Spelling};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Codes or texts that are looked up with the lock held once.
const LOOKED_UP_AT_ONCE: usize = 1_024;

impl Life {
    /// The rows of a batch in the order of their bricks, once all its texts have codes.
    pub(super) async fn routed(&self, table: u64, batch: &RecordBatch) -> Result<RoutedBatch, LoadError> {
        let rows = self.options.tables.rows_with_texts(table, batch).map_err(LoadError::Refused)?;
        self.check_lengths(&rows)?;
        let known = |column: &ColumnTexts| self.known_codes(column.dictionary(), column.texts());
        let known: Option<Vec<_>> = rows.texts().iter().map(known).collect();
        let mut codes = known.ok_or_else(|| self.codes_ended())?;
        // Whatever else is wrong with the rows is found before their texts use up codes.
        let routed = rows.routed(&codes).map_err(LoadError::Refused)?;
        if codes.iter().flatten().all(Option::is_some) {
            return Ok(routed);
        }
        for (column, codes) in rows.texts().iter().zip(&mut codes) {
            let (dictionary, texts) = (column.dictionary(), column.texts());
            *codes = self.codes(dictionary, Purpose::Give, texts).await?;
            if let Some(place) = codes.iter().position(Option::is_none) {
                return Err(CodesError::Full { dictionary, text: Arc::clone(&texts[place]) }.into());
            }
        }
        rows.routed(&codes).map_err(LoadError::Refused)
    }

    /// Whether the texts of rows are such as messages take: before the first of them is asked for.
    fn check_lengths(&self, rows: &TextRows) -> Result<(), CodesError> {
        let max = bounds_of(&self.options).text_bytes_max;
        let lengths = rows.texts().iter().flat_map(ColumnTexts::texts).map(|text| text.len());
        match lengths.max().filter(|bytes| *bytes > max) {
            Some(bytes) => Err(DictionaryError::TextTooLong { bytes, max }.into()),
            None => Ok(()),
        }
    }

    /// The codes that texts have for all that this node knows. Nothing if the life is over.
    pub(super) fn known_codes(
        &self,
        dictionary: DictionaryId,
        texts: &[Arc<str>],
    ) -> Option<Vec<Option<Code>>> {
        let mut codes = Vec::with_capacity(texts.len());
        for part in texts.chunks(LOOKED_UP_AT_ONCE) {
            let known = self.look(|engine| {
                let known = part.iter().map(|text| engine.dictionaries.code_of(dictionary, text));
                known.collect::<Vec<_>>()
            });
            codes.extend(known?);
        }
        Some(codes)
    }

    /// The texts of the codes in rows that are here. Nothing if the life is over.
    pub(super) fn spell(&self, codes: &[RowCodes]) -> Option<Result<Vec<RowTexts>, NoText>> {
        let mut texts = Vec::with_capacity(codes.len());
        for RowCodes { dictionary, codes } in codes {
            let mut spellings = Vec::with_capacity(codes.len());
            for part in codes.chunks(LOOKED_UP_AT_ONCE) {
                match self.look(|engine| engine.spell(*dictionary, part))? {
                    Ok(spelled) => spellings.extend(spelled),
                    Err(why) => return Some(Err(why)),
                }
            }
            texts.push(RowTexts { dictionary: *dictionary, spellings });
        }
        Some(Ok(texts))
    }

    /// Rows that are here, with the texts of their codes.
    pub(super) fn spelled(&self, rows: BrickRows) -> Result<BrickRows, ReadError> {
        let codes = rows.codes();
        let texts = self.spell(&codes).ok_or_else(|| self.read_ended())??;
        Ok(rows.spelled(&codes, &texts)?)
    }
}

impl Engine {
    /// Declares the dictionaries of tables that were declared since this was done last.
    pub(super) fn declare_dictionaries(&mut self) {
        let declarations = self.options.tables.declarations();
        if declarations == self.declarations {
            return;
        }
        for (dictionary, codes_max) in self.options.tables.dictionaries() {
            self.dictionaries.declare(dictionary, codes_max);
        }
        self.declarations = declarations;
    }

    /// The texts of codes.
    ///
    /// # Errors
    /// If one of them is not known here.
    fn spell(&self, dictionary: DictionaryId, codes: &[Code]) -> Result<Vec<Spelling>, NoText> {
        let spellings = self.dictionaries.spell(dictionary, codes.iter().copied());
        let is_unknown = |code: &&Code| self.dictionaries.text_of(dictionary, **code).is_none();
        match codes.iter().find(is_unknown) {
            Some(code) => Err(NoText { dictionary, code: *code }),
            None => Ok(spellings),
        }
    }

    /// A change of a brick as it is sent: rows with the texts of all their codes.
    ///
    /// # Errors
    /// If they are no rows of the brick, or have codes that this node does not know: it has given them in a life before, and
    /// that is not on its disk.
    pub(super) fn with_texts(
        &mut self,
        brick: BrickAddress,
        change: BrickChange,
    ) -> Result<BrickChange, RowsRefused> {
        if !self.options.tables.has(brick.table) {
            return Err(RowsRefused::NoTable(brick.table));
        }
        let rows = match change {
            BrickChange::Rows(rows) => rows,
            other => {
                self.check_rows(brick, &other, RowsOf::OneBrick)?;
                return Ok(other);
            }
        };
        let codes = self.store.check(brick, &rows, RowsOf::OneBrick)?;
        self.spelled_rows(rows, &codes)
    }

    /// Rows with the texts of their codes, if they have some.
    ///
    /// # Errors
    /// If one of the codes is not known here.
    fn spelled_rows(&self, rows: Bytes, codes: &[RowCodes]) -> Result<BrickChange, RowsRefused> {
        if codes.is_empty() {
            return Ok(BrickChange::Rows(rows));
        }
        let spell = |RowCodes { dictionary, codes }: &RowCodes| {
            let spelled = self.spell(*dictionary, codes);
            spelled.map(|spellings| RowTexts { dictionary: *dictionary, spellings })
        };
        let texts: Result<Arc<[RowTexts]>, NoText> = codes.iter().map(spell).collect();
        Ok(BrickChange::SpelledRows(rows, texts?))
    }

    /// As [`with_texts`](Self::with_texts), of rows that this node has just made of a batch itself. So they are rows of their bricks, and
    /// columns already: of their bytes who has the brick on another node makes some, and nobody here.
    ///
    /// # Errors
    /// As there.
    pub(super) fn routed_with_texts(&mut self, rows: RoutedRows) -> Result<BrickChange, RowsRefused> {
        if !self.options.tables.has(rows.brick.table) {
            return Err(RowsRefused::NoTable(rows.brick.table));
        }
        let change = self.spelled_rows(rows.bytes.clone(), &rows.codes()?)?;
        self.store.note_routed(rows.brick, &rows.bytes, rows.load);
        Ok(change)
    }

    /// Whether what a message has to be appended, or a copy brings, is rows of its brick, or of several, each code in them with its text: that has come
    /// with them, or is known here.
    ///
    /// # Errors
    /// If it is not, or the table is not known here yet: then it is sent again.
    pub(super) fn check_rows(
        &mut self,
        brick: BrickAddress,
        change: &BrickChange,
        of: RowsOf,
    ) -> Result<(), RowsRefused> {
        let rows = match change {
            BrickChange::Rows(rows) | BrickChange::SpelledRows(rows, _) => rows,
            BrickChange::Delete(_) if self.options.tables.is_known(brick.table) => return Ok(()),
            BrickChange::Delete(_) => return Err(RowsRefused::NoTable(brick.table)),
        };
        for RowCodes { dictionary, codes } in self.store.check(brick, rows, of)? {
            let with_rows = change.texts().iter().filter(|texts| texts.dictionary == dictionary);
            let with_rows = with_rows.flat_map(|texts| &texts.spellings).map(|spelling| spelling.code);
            let with_rows: BTreeSet<Code> = with_rows.collect();
            let is_here = |code: Code| self.dictionaries.text_of(dictionary, code).is_some();
            let lacks = |code: &Code| !with_rows.contains(code) && !is_here(*code);
            if let Some(code) = codes.into_iter().find(lacks) {
                return Err(NoText { dictionary, code }.into());
            }
        }
        Ok(())
    }

    /// Takes in texts that have come with rows, or before them: they are logged before the rows are.
    ///
    /// # Errors
    /// If one of them has another code here, or the code another text: neither may the rows be taken.
    pub(super) fn learn(&mut self, texts: &[RowTexts]) -> Result<(), RowsRefused> {
        for RowTexts { dictionary, spellings } in texts {
            self.dictionaries.learn(*dictionary, spellings)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
