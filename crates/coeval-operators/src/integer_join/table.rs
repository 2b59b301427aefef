// SPDX-License-Identifier: Apache-2.0
//! Which rows of the built side have a key.
//!
//! Most joins look for a key that one row has at most: then a key's entry is that row. Where several have it, the entry is the number of a
//! group of rows, which lie together:
//!
//! ```text
//! keys of rows 0, 1, ..        5  9  5  7  5
//! entries                      5 -> 0, 9 -> 1, 7 -> 2
//! groups' starts, rows         0  3  4  5,  0 2 4 | 1 | 3
//! ```

use super::codes::{Code, Extent, Layout, distance, extents, nulls_of};
use crate::join_keys::Numbers;
use arrow::array::ArrayRef;
use arrow::buffer::NullBuffer;
use datafusion::common::{exec_datafusion_err, resources_err};
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

/// The entry of a key that no row has.
pub(super) const NONE: u32 = u32::MAX;

/// So many places at least may be empty in an array for each that has a key; an entry of a hash table takes about as much.
const PLACES_PER_ROW_MAX: u64 = 16;

/// An array of so many places is small enough for the processor's caches, however few rows there are.
const PLACES_SMALL: u64 = 1 << 16;

/// Rows that are entered at a time, before others have their turn.
const ROWS_AT_A_TIME: usize = 1 << 18;

/// See the module.
#[derive(Debug)]
pub(super) struct Table {
    layout: Layout,
    /// The extents of the columns of keys.
    extents: Vec<Extent>,
    places: Places,
    /// Rows by groups, where a key has several.
    groups: Option<Groups>,
}

/// Entries of keys, each one more than it is, so that memory that nobody has written to has none.
#[derive(Debug)]
enum Places {
    /// By the key itself.
    Array(Vec<u32>),
    Hashed(Hashed<u64>),
    HashedWide(Hashed<u128>),
}

#[derive(Debug)]
struct Groups {
    /// Where the rows of a group begin; behind the last group, where they end.
    starts: Vec<u32>,
    rows: Vec<u32>,
}

impl Groups {
    fn bytes(&self) -> usize {
        (self.starts.capacity() + self.rows.capacity()) * size_of::<u32>()
    }
}

impl Table {
    /// The rows with these columns as their key, without those in which one is NULL; `None` if there is no row. It gives way to others now
    /// and then.
    ///
    /// # Errors
    ///
    /// If the memory for it is not there.
    pub(super) async fn of(columns: &[ArrayRef], memory: &MemoryReservation) -> Result<Option<Self>> {
        let rows = columns.first().map_or(0, |column| column.len());
        let Some(extents) = extents(columns) else { return Ok(None) };
        if u32::try_from(rows).is_err() {
            return resources_err!("a join cannot look for a key among {rows} rows");
        }
        // The columns' types have no more bits than that.
        let layout =
            Layout::of(&extents).ok_or_else(|| exec_datafusion_err!("a key of a join is too wide"))?;
        let is_small = layout.count() <= PLACES_SMALL.max(rows as u64 * PLACES_PER_ROW_MAX);
        let mut places = if is_small {
            let count = layout.count() as usize;
            memory.try_grow(count * size_of::<u32>())?;
            Places::Array(vec![0; count])
        } else if layout.bits() <= u64::BITS {
            Places::Hashed(Hashed::with_room_for(rows, memory)?)
        } else {
            Places::HashedWide(Hashed::with_room_for(rows, memory)?)
        };
        let mut entering = Entering { layout: &layout, columns, rows, memory };
        let groups = match &mut places {
            Places::Array(places) => entering.enter::<u64>(&mut Indexed(places)).await?,
            Places::Hashed(hashed) => entering.enter(hashed).await?,
            Places::HashedWide(hashed) => entering.enter(hashed).await?,
        };
        Ok(Some(Self { layout, extents, places, groups }))
    }

    /// The extents of the columns of keys.
    pub(super) fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// Whether each key has one row at most, and its entry is that row.
    pub(super) const fn is_unique(&self) -> bool {
        self.groups.is_none()
    }

    /// The rows of an entry, in order.
    #[inline]
    pub(super) fn rows(&self, entry: u32) -> &[u32] {
        let Some(groups) = &self.groups else { return &[] };
        let entry = entry as usize;
        &groups.rows[groups.starts[entry] as usize..groups.starts[entry + 1] as usize]
    }

    /// A row of each key, if there are so many keys at most. These are the columns that the table was made of.
    pub(super) fn rows_of_keys(&self, columns: &[ArrayRef], most: usize) -> Option<Vec<u32>> {
        if let Some(Groups { starts, rows }) = &self.groups {
            let firsts = &starts[..starts.len() - 1];
            return (firsts.len() <= most)
                .then(|| firsts.iter().map(|first| rows[*first as usize]).collect());
        }
        let rows = columns.first().map_or(0, |column| column.len());
        let nulls = nulls_of(columns);
        let missing = nulls.as_ref().map_or(0, NullBuffer::null_count);
        let has_key = |row: &u32| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row as usize));
        (rows - missing <= most).then(|| (0..rows as u32).filter(has_key).collect())
    }

    /// The entry of each row with these columns as its key.
    pub(super) fn entries(&self, columns: &[ArrayRef]) -> Vec<u32> {
        let mut entries = match (&self.places, self.layout.only(), columns) {
            (Places::Array(places), Some(extent), [column]) => in_array(places, extent, column),
            (Places::Array(places), ..) => self.found::<u64>(&Looked(places), columns),
            (Places::Hashed(hashed), ..) => self.found(hashed, columns),
            (Places::HashedWide(hashed), ..) => self.found(hashed, columns),
        };
        if let Some(nulls) = nulls_of(columns) {
            let unknown = !nulls.inner();
            unknown.set_indices().for_each(|row| entries[row] = NONE);
        }
        entries
    }

    fn found<C: Code>(&self, places: &impl Look<C>, columns: &[ArrayRef]) -> Vec<u32> {
        let (codes, strangers) = self.layout.codes::<C>(columns);
        let entry = |code: &C| places.look(*code).wrapping_sub(1);
        match strangers {
            None => codes.iter().map(entry).collect(),
            Some(strangers) => {
                let looked = codes.iter().zip(&strangers);
                looked.map(|(code, is_stranger)| if *is_stranger { NONE } else { entry(code) }).collect()
            }
        }
    }
}

/// The entries of the values of a column, where these are places of an array.
fn in_array(places: &[u32], extent: Extent, column: &ArrayRef) -> Vec<u32> {
    fn look<T: Copy>(places: &[u32], least: i64, values: &[T]) -> Vec<u32>
    where
        i64: From<T>,
    {
        let entry = |value: &T| {
            let place = usize::try_from(distance(i64::from(*value), least)).ok();
            place.and_then(|place| places.get(place)).map_or(NONE, |entry| entry.wrapping_sub(1))
        };
        values.iter().map(entry).collect()
    }
    match Numbers::of(column) {
        Some(Numbers::Short(values)) => look(places, extent.least, values),
        Some(Numbers::Word(values)) => look(places, extent.least, values),
        Some(Numbers::Long(values)) => look(places, extent.least, values),
        None => vec![NONE; column.len()],
    }
}

/// What has one more than the entry of a key, and 0 for others.
trait Look<C> {
    fn look(&self, code: C) -> u32;
}

/// What keeps that.
trait Enter<C> {
    /// What it has for a key, to be changed if that is 0.
    fn place(&mut self, code: C) -> &mut u32;

    fn forget(&mut self);
}

/// An array by keys.
struct Looked<'a>(&'a [u32]);

impl Look<u64> for Looked<'_> {
    #[inline(always)]
    fn look(&self, code: u64) -> u32 {
        self.0.get(code as usize).copied().unwrap_or(0)
    }
}

struct Indexed<'a>(&'a mut Vec<u32>);

impl Enter<u64> for Indexed<'_> {
    #[inline(always)]
    fn place(&mut self, code: u64) -> &mut u32 {
        &mut self.0[code as usize]
    }

    fn forget(&mut self) {
        self.0.fill(0);
    }
}

/// A table of keys by their hashes; who is not in its place is in one of the next.
#[derive(Debug)]
struct Hashed<C> {
    slots: Vec<(C, u32)>,
    /// By how much a hash is cut to a place.
    shift: u32,
    /// Of which hashes are made: others for each table, so that nobody can choose keys that meet.
    odd: [u64; 2],
}

impl<C: Code> Hashed<C> {
    fn with_room_for(rows: usize, memory: &MemoryReservation) -> Result<Self> {
        let slots = (rows.max(1) * 2).next_power_of_two();
        memory.try_grow(slots * size_of::<(C, u32)>())?;
        let seeds = RandomState::new();
        let odd = [seeds.hash_one(0_u8) | 1, seeds.hash_one(1_u8) | 1];
        Ok(Self { slots: vec![(C::default(), 0); slots], shift: u64::BITS - slots.trailing_zeros(), odd })
    }

    #[inline(always)]
    fn found(&self, code: C) -> usize {
        let mut place = (code.mixed(self.odd) >> self.shift) as usize;
        loop {
            let (there, entry) = &self.slots[place];
            if *entry == 0 || *there == code {
                return place;
            }
            // At least half of them are empty.
            place = (place + 1) & (self.slots.len() - 1);
        }
    }
}

impl<C: Code> Look<C> for Hashed<C> {
    #[inline(always)]
    fn look(&self, code: C) -> u32 {
        self.slots[self.found(code)].1
    }
}

impl<C: Code> Enter<C> for Hashed<C> {
    #[inline(always)]
    fn place(&mut self, code: C) -> &mut u32 {
        let place = self.found(code);
        self.slots[place].0 = code;
        &mut self.slots[place].1
    }

    fn forget(&mut self) {
        self.slots.fill((C::default(), 0));
    }
}

/// Rows on their way into places.
struct Entering<'a> {
    layout: &'a Layout,
    columns: &'a [ArrayRef],
    rows: usize,
    memory: &'a MemoryReservation,
}

impl Entering<'_> {
    /// The groups of rows, if a key has several.
    async fn enter<C: Code>(&mut self, places: &mut impl Enter<C>) -> Result<Option<Groups>> {
        for part in self.parts() {
            if !self.each(part, |row, code: C| is_first(places.place(code), row)) {
                places.forget();
                return Ok(Some(self.grouped(places).await?));
            }
            give_way().await;
        }
        Ok(None)
    }

    async fn grouped<C: Code>(&mut self, places: &mut impl Enter<C>) -> Result<Groups> {
        // A number of each row's group, one that counts each group, for which there may be room for two, one that begins it, and the rows.
        let reserved = self.rows * 5 * size_of::<u32>();
        self.memory.try_grow(reserved)?;
        let mut group_of = vec![NONE; self.rows];
        let mut counts: Vec<u32> = Vec::new();
        for part in self.parts() {
            self.each(part, |row, code: C| {
                let place = places.place(code);
                if *place == 0 {
                    counts.push(0);
                    *place = counts.len() as u32;
                }
                group_of[row] = *place - 1;
                counts[*place as usize - 1] += 1;
                true
            });
            give_way().await;
        }
        let mut starts = Vec::with_capacity(counts.len() + 1);
        let mut end = 0;
        for count in &mut counts {
            starts.push(end);
            end += *count;
            // From now on: where the next row of the group goes.
            *count = end - *count;
        }
        starts.push(end);
        let mut rows = vec![0; end as usize];
        for part in self.parts() {
            for row in part {
                if group_of[row] != NONE {
                    let next = &mut counts[group_of[row] as usize];
                    rows[*next as usize] = row as u32;
                    *next += 1;
                }
            }
            give_way().await;
        }
        let groups = Groups { starts, rows };
        self.memory.shrink(reserved.saturating_sub(groups.bytes()));
        Ok(groups)
    }

    fn parts(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let rows = self.rows;
        (0..rows).step_by(ROWS_AT_A_TIME).map(move |first| first..(first + ROWS_AT_A_TIME).min(rows))
    }

    /// Calls this for the rows of a part that have a key, as long as it gives true; whether it did for all.
    fn each<C: Code>(&self, part: Range<usize>, mut call: impl FnMut(usize, C) -> bool) -> bool {
        let columns: Vec<ArrayRef> =
            self.columns.iter().map(|column| column.slice(part.start, part.len())).collect();
        let (codes, _) = self.layout.codes::<C>(&columns);
        match nulls_of(&columns) {
            None => codes.iter().enumerate().all(|(row, code)| call(part.start + row, *code)),
            Some(nulls) => nulls.valid_indices().all(|row| call(part.start + row, codes[row])),
        }
    }
}

/// Enters a row under a key that no other row has been entered under; whether that is so.
#[inline(always)]
fn is_first(place: &mut u32, row: usize) -> bool {
    let is_first = *place == 0;
    *place = row as u32 + 1;
    is_first
}

/// Lets others have a turn, and whoever waits for the end of the statement stop it.
pub(super) async fn give_way() {
    let mut has_given = false;
    futures::future::poll_fn(|context| {
        if std::mem::replace(&mut has_given, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}
