// SPDX-License-Identifier: Apache-2.0
// How numbers are written: short where they are watched, exact where they are read.

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const one = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });

/** 1,234,567. Takes the text that the server gives, too. */
export function count(value) {
  return value === null || value === undefined ? '' : whole.format(typeof value === 'string' ? BigInt(value) : value);
}

export function plural(number, noun) {
  return `${count(number)} ${noun}${Number(number) === 1 ? '' : 's'}`;
}

export function bytes(value) {
  if (value === null || value === undefined) return '';
  let size = Number(value);
  let unit = 0;
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  // Three digits, as far as there are parts of a unit.
  const digits = unit === 0 || size >= 100 ? 0 : size < 10 ? 2 : 1;
  return `${digits === 0 ? whole.format(size) : size.toFixed(digits)} ${units[unit]}`;
}

export function milliseconds(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return '';
  if (value < 1) return `${Math.round(value * 1000)} µs`;
  if (value < 1000) return `${value < 10 ? value.toFixed(2) : value < 100 ? value.toFixed(1) : Math.round(value)} ms`;
  if (value < 60_000) return `${(value / 1000).toFixed(1)} s`;
  const seconds = Math.floor(value / 1000);
  const two = number => String(number).padStart(2, '0');
  const hours = Math.floor(seconds / 3600);
  return hours > 0
    ? `${hours}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)} h`
    : `${Math.floor(seconds / 60)}:${two(seconds % 60)} min`;
}

/** For axes: 1.2 k, 3 M. */
export function short(value) {
  const size = Math.abs(value);
  for (const [limit, letter] of [
    [1e12, 'T'],
    [1e9, 'G'],
    [1e6, 'M'],
    [1e3, 'k'],
  ]) {
    if (size >= limit) return `${one.format(value / limit)} ${letter}`;
  }
  if (size === 0) return '0';
  return size < 1 ? String(Number(value.toPrecision(2))) : one.format(value);
}

/** A moment that the server has written, as milliseconds since 1970; NaN if there is none. */
export function moment(text) {
  if (!text) return NaN;
  // PostgreSQL writes offsets as +00, and a blank between date and time.
  return Date.parse(text.replace(' ', 'T').replace(/([+-]\d\d)$/, '$1:00'));
}

/** How long ago that was. */
export function since(text, now = Date.now()) {
  const then = moment(text);
  return Number.isNaN(then) ? '' : milliseconds(Math.max(0, now - then));
}

/** The time of day, with the day if it is another one. */
export function clock(text) {
  return clockOf(moment(text));
}

/** The same of milliseconds since 1970. */
export function clockOf(milliseconds) {
  const then = new Date(milliseconds);
  if (Number.isNaN(then.getTime())) return '';
  const isToday = then.toDateString() === new Date().toDateString();
  return isToday ? then.toLocaleTimeString('en-GB') : then.toLocaleString('en-GB');
}
