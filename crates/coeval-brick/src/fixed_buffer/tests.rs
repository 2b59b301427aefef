// SPDX-License-Identifier: Apache-2.0
use super::*;

use std::sync::atomic::AtomicBool;

/// The published length as `loom` sees it, with one cell for each byte: `loom` fails if a read and a write of a
/// cell are not ordered.
struct Checked {
    length: loom::sync::atomic::AtomicUsize,
    bytes: Vec<loom::cell::UnsafeCell<()>>,
}

impl Published for Checked {
    fn nothing(capacity: usize) -> Self {
        let bytes = (0..capacity).map(|_| loom::cell::UnsafeCell::new(())).collect();
        Self { length: loom::sync::atomic::AtomicUsize::new(0), bytes }
    }

    fn load(&self, ordering: Ordering) -> usize {
        self.length.load(ordering)
    }

    fn store(&self, length: usize, ordering: Ordering) {
        self.length.store(length, ordering);
    }

    fn on_write(&self, bytes: Range<usize>) {
        self.bytes[bytes].iter().for_each(|cell| cell.with_mut(|_| ()));
    }

    fn on_read(&self, bytes: Range<usize>) {
        self.bytes[bytes].iter().for_each(|cell| cell.with(|_| ()));
    }
}

// SAFETY: the cells hold no data; they are there so that `loom` reports unordered accesses to them.
unsafe impl Sync for Checked {}

#[test]
fn under_every_interleaving_a_reader_sees_what_was_published_and_races_with_nothing() {
    loom::model(|| {
        let (mut writer, reader) = fixed_buffer::<Checked>(4);
        let scans = reader.clone();
        let scan = loom::thread::spawn(move || {
            for _ in 0..2 {
                let published = scans.shared.published.load(Ordering::Relaxed);
                let slice = scans.slice(0..published);
                assert_eq!(slice.as_slice(), &[1, 2, 3, 4][..published]);
            }
        });
        writer.append(&[1]);
        writer.append(&[2, 3]);
        writer.append(&[4]);
        scan.join().unwrap();
        assert_eq!(reader.slice(1..4).as_slice(), [2, 3, 4]);
    });
}

#[test]
fn slices_are_of_the_same_memory_and_outlive_both_sides() {
    let (mut writer, reader) = fixed_buffer::<AtomicUsize>(16);
    writer.append(&[1, 2, 3]);
    let first = reader.slice(0..3);
    writer.append(&[4]);
    let second = reader.slice(1..4);
    assert_eq!(first.as_ptr().wrapping_add(1), second.as_ptr());
    assert_eq!(first.as_ptr() as usize % ALIGNMENT, 0);
    drop((writer, reader));
    assert_eq!((first.as_slice(), second.as_slice()), (&[1, 2, 3][..], &[2, 3, 4][..]));
    assert!(first.into_mutable().is_err(), "Arrow does not take the memory over");
}

#[test]
#[should_panic(expected = "only what is published is read")]
fn what_is_not_published_cannot_be_read() {
    let (mut writer, reader) = fixed_buffer::<AtomicUsize>(16);
    writer.append(&[1, 2, 3]);
    let _ = reader.slice(0..4);
}

#[test]
#[should_panic(expected = "fit into the buffer")]
fn more_than_fits_cannot_be_appended() {
    let (mut writer, _reader) = fixed_buffer::<AtomicUsize>(3);
    writer.append(&[1, 2]);
    writer.append(&[3, 4]);
}

#[test]
fn nothing_can_be_appended_to_and_read_from_an_empty_buffer() {
    let (mut writer, reader) = fixed_buffer::<AtomicUsize>(0);
    writer.append(&[]);
    assert_eq!((reader.slice(0..0).len(), reader.capacity()), (0, 0));
}

#[test]
fn readers_on_other_threads_see_every_published_value_while_the_writer_goes_on() {
    const VALUES: u64 = if cfg!(miri) { 300 } else { 300_000 };
    let (mut writer, reader) = fixed_buffer::<AtomicUsize>(8 * VALUES as usize);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let is_last = ended.load(Ordering::Acquire);
                    let published = reader.shared.published.load(Ordering::Relaxed);
                    let values = reader.slice(0..published);
                    let count = published as u64 / 8;
                    let sum: u64 = values.typed_data::<u64>().iter().sum();
                    assert_eq!(sum, count * count.saturating_sub(1) / 2);
                    if is_last {
                        return assert_eq!(count, VALUES);
                    }
                }
            });
        }
        for value in 0..VALUES {
            writer.append(&value.to_ne_bytes());
        }
        ended.store(true, Ordering::Release);
    });
}
