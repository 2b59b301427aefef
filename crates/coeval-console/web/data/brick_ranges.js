// SPDX-License-Identifier: Apache-2.0
// The ranges of bricks out of their text: `region in 'a'..'b', day in 2026-01-01..2026-01-31`.

import { moment } from '../figures.js';

const RANGE = /(?:^|, )(\S.*?) in (?:'(.*?)'\.\.'(.*?)'|([^'].*?)\.\.(.+?))(?=, \S.*? in ['\d-]|$)/gs;

/** `{dimension, from, to, text}` for each dimension. */
export function parseRanges(text) {
  return [...(text ?? '').matchAll(RANGE)].map(([, dimension, least, greatest, from, to]) => ({
    dimension,
    from: least ?? from,
    to: greatest ?? to,
    text: `${least ?? from} .. ${greatest ?? to}`,
  }));
}

/** Numbers inside of texts count as numbers. */
const order = new Intl.Collator('en', { numeric: true });

function compare(a, b) {
  const [x, y] = [Number(a.from), Number(b.from)];
  if (!Number.isNaN(x) && !Number.isNaN(y)) return x - y;
  return order.compare(a.from, b.from);
}

/** The bricks with their ranges, and of each dimension all ranges that there are, in order. */
export function readBricks(rows) {
  const ranges = new Map();
  const bricks = rows.map(row => {
    const own = parseRanges(row.ranges);
    for (const range of own) {
      if (!ranges.has(range.dimension)) ranges.set(range.dimension, new Map());
      ranges.get(range.dimension).set(range.text, range);
    }
    return { ...row, place: Object.fromEntries(own.map(({ dimension, text }) => [dimension, text])) };
  });
  const dimensions = [...ranges].map(([name, all]) => ({ name, ranges: [...all.values()].sort(compare) }));
  return { bricks, dimensions };
}

/** The greater of two of which either may be unknown. */
function greater(one, other) {
  return one === null || (other !== null && other > one) ? other : one;
}

function numberOf(text) {
  return text === null ? null : Number(text);
}

/** When it was loaded last, in milliseconds since 1970; `null` if that is not known. */
function loadOf(brick) {
  const at = moment(brick.last_load);
  return Number.isNaN(at) ? null : at;
}

/** The cells of two dimensions; `y` may be missing. What lies in one cell is added up; of epochs and loads the last one counts. */
export function cells(bricks, x, y) {
  const found = new Map();
  for (const brick of bricks) {
    const key = JSON.stringify([brick.place[x], y === null ? null : brick.place[y]]);
    const cell = found.get(key) ?? {
      bricks: 0,
      rows: 0,
      visible: 0,
      bytes: 0,
      valueBytes: 0,
      epochsEntries: 0,
      epochsBytes: 0,
      newestEpoch: null,
      lastLoad: null,
    };
    cell.bricks += 1;
    cell.rows += Number(brick.rows);
    cell.visible += Number(brick.visible_rows);
    cell.bytes += Number(brick.bytes);
    cell.valueBytes += Number(brick.value_bytes);
    cell.epochsEntries += Number(brick.epochs_entries);
    cell.epochsBytes += Number(brick.epochs_bytes);
    cell.newestEpoch = greater(cell.newestEpoch, numberOf(brick.newest_epoch));
    cell.lastLoad = greater(cell.lastLoad, loadOf(brick));
    found.set(key, cell);
  }
  return {
    at: (xText, yText) => found.get(JSON.stringify([xText, yText])),
    /** The most of one kind that a cell has. */
    most: heat => Math.max(1, ...[...found.values()].map(cell => cell[heat])),
    /** The first and the last of the moments at which cells were loaded last; `null` if none is known. */
    loads: () => {
      const known = [...found.values()].map(cell => cell.lastLoad).filter(at => at !== null);
      return known.length === 0 ? null : { first: Math.min(...known), last: Math.max(...known) };
    },
  };
}
