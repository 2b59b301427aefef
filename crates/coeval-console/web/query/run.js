// SPDX-License-Identifier: Apache-2.0
// Running SQL in a tab: the stream of events becomes results, messages and the state of the transaction.

import { cancelTab, runInTab, ServerError } from '../server.js';
import { announce } from '../announce.js';
import { milliseconds, plural } from '../figures.js';
import { FetchedRows } from './result_rows.js';
import { forgetNames } from './names.js';
import { remember } from './history.js';
import { FAILED, IN_BLOCK, IDLE } from './tabs.js';

const DEFINES = /^(CREATE|ALTER|DROP|SELECT INTO|IMPORT)\b/;
const QUERY_CANCELED = '57014';

let count = 0;

/** What is known of a run before its first event. */
function begun(sql, { offset, kind, prefix, parameters }) {
  count += 1;
  return {
    number: count,
    sql,
    offset,
    kind,
    prefix,
    hasParameters: parameters.length > 0,
    isRunning: true,
    startedAt: performance.now(),
    milliseconds: null,
    /** `{number, columns, rows, count, tag, truncated, isDone}` */
    results: [],
    /** In their order: `{kind: 'tag' | 'notice' | 'error', ...}`. */
    messages: [],
    error: null,
    abort: new AbortController(),
  };
}

/**
 * Runs `sql`, which stands in the tab's text at `offset` (`null`: it does not). `kind` says what is looked at when it is
 * done: `run`, or `plan`.
 */
export async function start(
  tab,
  sql,
  { offset = null, parameters = [], kind = 'run', prefix = 0, isRemembered = true } = {},
) {
  if (tab.run.value?.isRunning || sql.trim() === '') return;
  let run = begun(sql, { offset, kind, prefix, parameters });
  const change = changes => {
    // Cancel writes into it, too.
    const now = tab.run.value?.number === run.number ? tab.run.value : run;
    run = { ...now, ...changes };
    tab.run.value = run;
  };
  change({});
  tab.marked.value = null;
  announce('Running.');
  const before = tab.transaction.value;
  try {
    await follow(tab, parameters, () => run, change);
  } catch (error) {
    if (error.name === 'AbortError') {
      fail(tab, run, change, { message: 'The request was ended here.', sqlstate: QUERY_CANCELED });
    } else {
      fail(tab, run, change, error);
      if (error.status === 404) lost(tab, before, change, () => run);
    }
  }
  if (run.isRunning) change({ isRunning: false, milliseconds: performance.now() - run.startedAt });
  if (isRemembered) remember({ sql, error: run.error !== null, milliseconds: run.milliseconds });
  if (run.messages.some(({ tag }) => DEFINES.test(tag ?? ''))) tab.hasDefined = true;
  // Others see it once it is committed, and so does the session that asks for names.
  if (tab.hasDefined && tab.transaction.value === IDLE) {
    tab.hasDefined = false;
    forgetNames();
  }
  announce(summary(run));
}

async function follow(tab, parameters, current, change) {
  const id = await tab.session();
  for await (const event of runInTab(id, current().sql, parameters, current().abort.signal)) {
    apply(tab, id, event, current(), change);
  }
  if (current().isRunning) {
    throw new ServerError(0, { message: 'The connection to the server ended while the statement ran.' });
  }
}

function apply(tab, id, event, run, change) {
  const { results, messages } = run;
  const update = (number, changes) => results.map(one => (one.number === number ? { ...one, ...changes } : one));
  switch (event.event) {
    case 'columns': {
      const rows = new FetchedRows(id, event.result);
      const result = { number: event.result, columns: event.columns, rows, count: 0, tag: null, isDone: false };
      change({ results: [...results, result] });
      break;
    }
    case 'progress':
      noteEnd(results, event);
      change({ results: update(event.result, { count: event.rows }) });
      break;
    case 'notice':
      change({ messages: [...messages, { ...event, kind: 'notice' }] });
      break;
    case 'result': {
      const { tag, rows, truncated } = event;
      noteEnd(results, event);
      change({
        results:
          event.result === null ? results : update(event.result, { tag, count: rows, truncated, isDone: true }),
        // An empty statement has no tag.
        messages: tag === '' ? messages : [...messages, { kind: 'tag', tag, truncated }],
      });
      break;
    }
    case 'error':
      fail(tab, run, change, event);
      break;
    case 'done':
      tab.transaction.value = event.transaction;
      // What an error has cut short gets no more rows.
      change({
        isRunning: false,
        milliseconds: event.milliseconds,
        results: results.map(result => ({ ...result, isDone: true })),
      });
      break;
    default:
  }
}

/** Where a result ends whose other rows are not kept. */
function noteEnd(results, { result, rows, kept }) {
  const one = results.find(({ number }) => number === result);
  if (one && kept < rows) one.rows.end.value = kept;
}

function fail(tab, run, change, { message, sqlstate, detail, hint, position }) {
  const place = position ? placeOf(run, Number(position)) : null;
  const error = { message, sqlstate, detail, hint, place };
  change({ error, messages: [...run.messages, { ...error, kind: 'error' }] });
  if (place?.inText) tab.marked.value = place.inText;
}

/** The server counts characters from 1, this language half of some characters from 0. */
function placeOf({ sql, offset, prefix }, position) {
  const characters = [...sql];
  const at = characters.slice(0, position - 1).join('').length;
  const word = /^(?:"(?:[^"]|"")*"|[\w$]+|\S)/u.exec(sql.slice(at))?.[0] ?? ' ';
  const before = sql.slice(prefix, at).split('\n');
  const inText = offset === null || offset + at < 0 ? null : { from: offset + at, to: offset + at + word.length };
  return { line: before.length, column: [...before.at(-1)].length + 1, inText };
}

/** A session that the server no longer knows. Nothing has run, but a transaction may have ended with it. */
function lost(tab, before, change, current) {
  tab.forget();
  const text =
    before === IDLE
      ? 'The session of this tab had ended. Run it again: a new session begins.'
      : 'The session of this tab had ended, and its transaction was rolled back. The next run begins a new session.';
  change({ messages: [...current().messages, { kind: 'notice', severity: 'WARNING', message: text }] });
}

/** Asks the server to end what runs; when asked again, no longer waits for it. */
export function cancel(tab) {
  const run = tab.run.value;
  if (!run?.isRunning) return;
  if (run.isCanceled || tab.id === null) {
    run.abort.abort();
    return;
  }
  tab.run.value = { ...run, isCanceled: true };
  cancelTab(tab.id).catch(() => run.abort.abort());
}

function summary({ error, results, messages, milliseconds: time }) {
  if (error) return `Error: ${error.message}`;
  const last = results.at(-1);
  const what = last ? plural(last.count, 'row') : (messages.findLast(({ kind }) => kind === 'tag')?.tag ?? 'nothing');
  return `Done: ${what}, ${milliseconds(time)}.`;
}

/** How a transaction's state is said. */
export const STATES = {
  [IDLE]: 'No transaction',
  [IN_BLOCK]: 'In a transaction',
  [FAILED]: 'Transaction failed',
};
