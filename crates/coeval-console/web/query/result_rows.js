// SPDX-License-Identifier: Apache-2.0
// The rows of results as the grid asks for them: windows that are fetched when they come into view, and a few of them
// kept.

import { signal } from '../vendor/libraries.js';
import { resultRows } from '../server.js';

const WINDOW = 500;
const WINDOWS_KEPT = 24;

/** Rows that are at the server. */
export class FetchedRows {
  constructor(tab, result) {
    this.tab = tab;
    this.result = result;
    /** Windows by their number: rows, or a promise of them. The one that was used last is the last one. */
    this.windows = new Map();
    /** Changes when rows have come. */
    this.version = signal(0);
    this.error = signal(null);
  }

  /** The row, or `undefined` as long as it is not here. */
  row(index) {
    const window = this.windows.get(Math.floor(index / WINDOW));
    return Array.isArray(window) ? window[index % WINDOW] : undefined;
  }

  /** Sees to it that these rows come. */
  want(from, to, total) {
    for (let number = Math.floor(from / WINDOW); number * WINDOW < to; number += 1) {
      const here = this.windows.get(number);
      // A window that was fetched while the statement ran may have got longer.
      const expected = Math.min(WINDOW, total - number * WINDOW);
      if (here === undefined || (Array.isArray(here) && here.length < expected)) this.#fetch(number);
    }
  }

  async #fetch(number) {
    const before = this.windows.get(number);
    if (before !== undefined && !Array.isArray(before)) return;
    if (before?.isRefreshing) return;
    if (before) before.isRefreshing = true;
    else this.windows.set(number, 'coming');
    try {
      const { rows } = await resultRows(this.tab, this.result, number * WINDOW, WINDOW);
      this.windows.delete(number);
      this.windows.set(number, rows);
      this.#dropOldest();
    } catch (error) {
      if (!before) this.windows.delete(number);
      this.error.value = error;
      return;
    }
    this.version.value += 1;
  }

  #dropOldest() {
    for (const number of this.windows.keys()) {
      if (this.windows.size <= WINDOWS_KEPT) return;
      this.windows.delete(number);
    }
  }

  /** The first rows, at most so many, for a chart. */
  async first(count) {
    const all = [];
    while (all.length < count) {
      const { rows } = await resultRows(this.tab, this.result, all.length, Math.min(2000, count - all.length));
      if (rows.length === 0) break;
      all.push(...rows);
    }
    return all;
  }
}

/** Rows that are all here. */
export class GivenRows {
  constructor(rows) {
    this.rows = rows;
    this.version = signal(0);
    this.error = signal(null);
  }

  row(index) {
    return this.rows[index];
  }

  want() {}

  async first(count) {
    return this.rows.slice(0, count);
  }
}
