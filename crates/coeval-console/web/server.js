// SPDX-License-Identifier: Apache-2.0
// The server's side of the console: who is logged in, and every request that is made.

import { signal } from './vendor/libraries.js';
import { load, save } from './storage.js';

/** Who is logged in: `undefined` before the server was asked, `null` for nobody. */
export const session = signal(undefined);

// The login's second value, which every request repeats. The cookie goes to all ports of the host; this is kept for this one.
const SECOND = 'second';
let second = load(SECOND, null);

function keepSecond(value) {
  second = value;
  save(SECOND, value);
}

/** What the server refused, with the fields of PostgreSQL's errors as far as there are any. */
export class ServerError extends Error {
  constructor(status, { message, sqlstate, detail, hint, position } = {}) {
    super(message ?? `The server answered ${status}.`);
    Object.assign(this, { status, sqlstate, detail, hint, position });
  }
}

/** The response to a request that succeeded. */
export async function request(method, path, { body, signal: abort, keepalive } = {}) {
  const headers = {};
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  // Another window may have logged in since.
  const repeated = load(SECOND, null) ?? second;
  if (repeated !== null) headers['X-Coeval-Csrf'] = repeated;
  let response;
  try {
    const sent = body === undefined ? undefined : JSON.stringify(body);
    response = await fetch(path, { method, headers, body: sent, signal: abort, keepalive, cache: 'no-store' });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ServerError(0, { message: 'The server cannot be reached.' });
  }
  if (response.ok) return response;
  // The login has ended: the form comes up, and what was typed stays.
  if (response.status === 401 && path !== 'api/login') session.value = null;
  throw new ServerError(response.status, await response.json().catch(() => undefined));
}

async function json(method, path, options) {
  return (await request(method, path, options)).json();
}

/** Asks who is logged in. */
export async function resume() {
  try {
    session.value = await json('GET', 'api/session');
  } catch (error) {
    // Without the second value, another program of this host may have made the request.
    if (error.status !== 401 && error.status !== 403) throw error;
    session.value = null;
  }
}

export async function logIn(account) {
  const { csrf, ...whoever } = await json('POST', 'api/login', { body: account });
  keepSecond(csrf);
  session.value = whoever;
}

export async function logOut() {
  await request('POST', 'api/logout');
  keepSecond(null);
  session.value = null;
}

/** One of the console's own questions: rows as objects, by the names of columns. All values are texts or null. */
export async function ask(sql, parameters = []) {
  const { columns, rows } = await json('POST', 'api/query', { body: { sql, parameters } });
  return rows.map(row => Object.fromEntries(columns.map(({ name }, index) => [name, row[index]])));
}

/** The same as a table: columns with their types, and rows as arrays. */
export function askForTable(sql, parameters = []) {
  return json('POST', 'api/query', { body: { sql, parameters } });
}

/** The figures in Prometheus' text format. */
export async function figures() {
  return (await request('GET', 'api/figures')).text();
}

/** A new session for an editor tab: its id. */
export async function openTab() {
  return (await json('POST', 'api/tabs')).tab;
}

/** How a tab is: `{running, transaction}`. The server ends the session of a tab that nobody asks for. */
export function tabStanding(id) {
  return json('GET', `api/tabs/${encodeURIComponent(id)}`);
}

export function closeTab(id, { keepalive } = {}) {
  return request('DELETE', `api/tabs/${encodeURIComponent(id)}`, { keepalive });
}

export function cancelTab(id) {
  return request('POST', `api/tabs/${encodeURIComponent(id)}/cancel`);
}

/** Runs SQL in a tab's session; gives the events while they come. */
export async function* runInTab(id, sql, parameters, abort) {
  const body = parameters.length > 0 ? { sql, parameters } : { sql };
  const response = await request('POST', `api/tabs/${encodeURIComponent(id)}/run`, { body, signal: abort });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const lines = (rest + value).split('\n');
    rest = lines.pop();
    for (const line of lines) if (line !== '') yield JSON.parse(line);
  }
  if (rest.trim() !== '') yield JSON.parse(rest);
}

export function resultRows(id, result, from, count) {
  return json('GET', `api/tabs/${encodeURIComponent(id)}/results/${result}/rows?from=${from}&count=${count}`);
}

/** The same of a query's text, as Arrow or Parquet: the server asks it again. */
export async function downloadCopy(id, sql, format) {
  const address = `api/tabs/${encodeURIComponent(id)}/copy`;
  const { ticket } = await json('POST', address, { body: { sql, format } });
  follow(`${address}?ticket=${encodeURIComponent(ticket)}`);
}

function follow(address) {
  const link = document.createElement('a');
  link.href = address;
  link.download = '';
  link.click();
}

/** Has the browser download the whole result. What it does so cannot carry the second value, but a ticket for this one time. */
export async function download(id, result, format) {
  const address = `api/tabs/${encodeURIComponent(id)}/results/${result}`;
  const { ticket } = await json('POST', `${address}/ticket`);
  follow(`${address}/csv?format=${format}&ticket=${encodeURIComponent(ticket)}`);
}
