// SPDX-License-Identifier: Apache-2.0
//! Tables of a query's own: something about each key, addressed by the key.

use coeval_ptree::PTree;

/// Entries that one task looks at.
const TASK: usize = 16_384;

/// What `code` says of each entry, at the place of its key; zero where there is no entry. In parallel.
pub(crate) fn by_key<V, const B: usize>(
    tree: &PTree<u32, V, (), B>,
    code: impl Fn(&V) -> u8 + Sync,
) -> Vec<u8>
where
    V: Clone + Send + Sync,
{
    let mut table = vec![0; tree.last().map_or(0, |(key, _)| *key as usize + 1)];
    fill(tree, &mut table, 0, &code);
    table
}

/// Fills the part of a table that begins with key `first`.
fn fill<V, const B: usize>(
    tree: &PTree<u32, V, (), B>,
    table: &mut [u8],
    first: u32,
    code: &(impl Fn(&V) -> u8 + Sync),
) where
    V: Clone + Send + Sync,
{
    if tree.len() <= TASK {
        tree.iter().for_each(|(key, value)| table[(key - first) as usize] = code(value));
        return;
    }
    let (middle, _) = tree.select(tree.len() / 2).expect("half way is inside");
    let (low, high) = table.split_at_mut((middle - first) as usize);
    rayon::join(
        || fill(&tree.range(..middle), low, first, code),
        || fill(&tree.range(middle..), high, *middle, code),
    );
}

/// Appends one list to another, the shorter one to the longer one where their order is not asked for.
pub(crate) fn append<T>(mut one: Vec<T>, mut other: Vec<T>) -> Vec<T> {
    if one.len() < other.len() {
        std::mem::swap(&mut one, &mut other);
    }
    one.append(&mut other);
    one
}

/// Adds sums place by place.
pub(crate) fn add<const N: usize>(mut one: [i64; N], other: [i64; N]) -> [i64; N] {
    one.iter_mut().zip(other).for_each(|(sum, more)| *sum += more);
    one
}

/// As [`add`], for sums in the heap; an empty list is all zeros.
pub(crate) fn add_all(mut one: Vec<i64>, other: Vec<i64>) -> Vec<i64> {
    if one.is_empty() {
        return other;
    }
    one.iter_mut().zip(other).for_each(|(sum, more)| *sum += more);
    one
}
