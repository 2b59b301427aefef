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
    /** By their number: `{rows, isComing}`. The one that was used last is the last one. */
    this.windows = new Map();
    /** Changes when rows have come. */
    this.version = signal(0);
    /** How many rows are kept, if not all of them are. */
    this.end = signal(null);
    this.error = signal(null);
  }

  /** The row, or `undefined` as long as it is not here. */
  row(index) {
    return this.windows.get(Math.floor(index / WINDOW))?.rows[index % WINDOW];
  }

  /** Sees to it that these rows come. Where rows are long a window comes in several answers. */
  want(from, to) {
    for (let number = Math.floor(from / WINDOW); number * WINDOW < to; number += 1) {
      if (!this.windows.has(number)) this.windows.set(number, { rows: [], isComing: false });
      const window = this.windows.get(number);
      const wanted = Math.min(WINDOW, to - number * WINDOW);
      if (window.rows.length < wanted && !window.isComing) this.#fetch(number, window);
    }
  }

  async #fetch(number, window) {
    const from = number * WINDOW + window.rows.length;
    window.isComing = true;
    try {
      const { rows } = await resultRows(this.tab, this.result, from, WINDOW - window.rows.length);
      window.rows.push(...rows);
      this.windows.delete(number);
      this.windows.set(number, window);
      this.#dropOldest();
    } catch (error) {
      this.error.value = error;
      return;
    } finally {
      window.isComing = false;
    }
    this.version.value += 1;
  }

  #dropOldest() {
    for (const [number, { isComing }] of this.windows) {
      if (this.windows.size <= WINDOWS_KEPT) return;
      if (!isComing) this.windows.delete(number);
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
    this.end = signal(null);
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
