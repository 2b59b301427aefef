// SPDX-License-Identifier: Apache-2.0
// The names that the editor completes: tables and columns out of the catalog, asked for when they are first needed and
// again after definitions have changed.

import { effect, signal } from '../vendor/libraries.js';
import { askForTable, session } from '../server.js';
import { SYSTEM_TABLES } from '../data/system_tables.js';

const QUESTION = `
  SELECT n.nspname, c.relname, a.attname
  FROM pg_catalog.pg_attribute a
  JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
  ORDER BY CASE WHEN n.nspname IN ('pg_catalog', 'information_schema') THEN 1 ELSE 0 END, 1, 2, a.attnum`;

/** Schemas, in them tables, in them columns: as the editor's language takes them. */
export const names = signal(ownNames());

function ownNames() {
  return Object.fromEntries(SYSTEM_TABLES.map(({ name, columns }) => [name, columns]));
}

let isStale = true;
let coming = null;

export function forgetNames() {
  isStale = true;
  fetchNames();
}

effect(() => {
  if (session.value) isStale = true;
});

/** Fetches the names if they are not here. An editor works without them, so that a failure is not told. */
export function fetchNames() {
  if (isStale && session.value) {
    isStale = false;
    coming = ask().catch(() => {
      isStale = true;
    });
  }
  return coming;
}

async function ask() {
  const { rows } = await askForTable(QUESTION);
  const all = ownNames();
  for (const [schema, table, column] of rows) ((all[schema] ??= {})[table] ??= []).push(column);
  names.value = all;
}
