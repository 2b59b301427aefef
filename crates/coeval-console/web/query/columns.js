// SPDX-License-Identifier: Apache-2.0
// How wide columns are, and on which side their values stand.

const NUMBERS = new Set(['int2', 'int4', 'int8', 'float4', 'float8', 'numeric', 'oid', 'money']);
const WIDTH_MIN = 44;
const WIDTH_MAX = 380;
const PADDING = 22;

export function isNumber(type) {
  return NUMBERS.has(type);
}

export function isTime(type) {
  return type === 'timestamptz' || type === 'timestamp' || type === 'date';
}

let letter = null;

/** The width of a character of the grid's font. */
function letterWidth() {
  if (letter === null) {
    const context = document.createElement('canvas').getContext('2d');
    context.font = `12.5px ${getComputedStyle(document.documentElement).getPropertyValue('--mono')}`;
    letter = context.measureText('0').width || 7.5;
  }
  return letter;
}

/** Widths for these columns, by their names and by some rows. */
export function widthsFor(columns, rows) {
  return columns.map(({ name }, index) => {
    let characters = name.length + 1;
    for (const row of rows) characters = Math.max(characters, Math.min(row[index]?.length ?? 4, 60));
    return Math.round(Math.min(WIDTH_MAX, Math.max(WIDTH_MIN, characters * letterWidth() + PADDING)));
  });
}

export function numberColumnWidth(total) {
  return Math.round(Math.max(34, String(total).length * 1.34 * letterWidth() + PADDING));
}
