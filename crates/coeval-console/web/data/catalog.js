// SPDX-License-Identifier: Apache-2.0
// What the catalog is asked about tables.

import { ask } from '../server.js';

const RELATIONS = `
  SELECT c.oid, n.nspname AS schema, c.relname AS name, c.relkind AS kind,
         pg_catalog.pg_get_userbyid(c.relowner) AS owner, pg_catalog.obj_description(c.oid, 'pg_class') AS comment
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
  ORDER BY n.nspname, c.relname`;

const SIZES = `
  SELECT rows, base_chunks, base_bytes, delta_rows, delta_bytes, indexes, bytes
  FROM coeval_tables WHERE table_schema = $1 AND table_name = $2`;

const BRICKS = `
  SELECT brick, ranges, rows, visible_rows, value_bytes, bytes, epochs_entries, epochs_bytes, newest_epoch, last_load
  FROM coeval_bricks WHERE table_schema = $1 AND table_name = $2 ORDER BY brick`;

const DIMENSIONS = `
  SELECT column_name, cardinality, range_size, origin, retention
  FROM coeval_dimensions WHERE table_schema = $1 AND table_name = $2`;

const LOADS = `
  SELECT source, last_offset, rows FROM coeval_ingest_offsets WHERE table_schema = $1 AND table_name = $2
  ORDER BY source`;

export const KINDS = { r: 'table', p: 'table', v: 'view', m: 'view', f: 'foreign table' };

export function relations() {
  return ask(RELATIONS);
}

export async function sizes({ schema, name }) {
  return (await ask(SIZES, [schema, name]))[0] ?? null;
}

export function bricks({ schema, name }) {
  return ask(BRICKS, [schema, name]);
}

export function dimensions({ schema, name }) {
  return ask(DIMENSIONS, [schema, name]);
}

/** How far each source of a brick table has come. */
export function loads({ schema, name }) {
  return ask(LOADS, [schema, name]);
}

export function columns(oid) {
  return ask(`
    SELECT a.attnum AS number, a.attname AS name, pg_catalog.format_type(a.atttypid, a.atttypmod) AS type,
           a.attnotnull AS not_null, pg_catalog.pg_get_expr(d.adbin, d.adrelid) AS "default", a.attidentity AS identity,
           a.attgenerated AS generated, pg_catalog.col_description(a.attrelid, a.attnum) AS comment
    FROM pg_catalog.pg_attribute a
    LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = ${Number(oid)} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`);
}

export function indexes(oid) {
  return ask(`
    SELECT c.relname AS name, i.indisprimary AS is_primary, i.indisunique AS is_unique,
           pg_catalog.pg_get_indexdef(i.indexrelid, 0, true) AS definition,
           pg_catalog.array_to_string(i.indkey, ',') AS columns, i.indpred IS NOT NULL AS is_partial,
           pg_catalog.pg_relation_size(i.indexrelid) AS bytes, s.idx_scan AS walks
    FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
    LEFT JOIN pg_catalog.pg_stat_all_indexes s ON s.indexrelid = i.indexrelid
    WHERE i.indrelid = ${Number(oid)} ORDER BY c.relname`);
}

export function constraints(oid) {
  return ask(`
    SELECT conname AS name, contype AS kind, pg_catalog.pg_get_constraintdef(oid, true) AS definition,
           pg_catalog.array_to_string(conkey, ',') AS columns
    FROM pg_catalog.pg_constraint WHERE conrelid = ${Number(oid)} ORDER BY conname`);
}

export function referencedBy(oid) {
  return ask(`
    SELECT r.conname AS name, n.nspname AS schema, c.relname AS table_name,
           pg_catalog.pg_get_constraintdef(r.oid, true) AS definition
    FROM pg_catalog.pg_constraint r JOIN pg_catalog.pg_class c ON c.oid = r.conrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE r.confrelid = ${Number(oid)} AND r.contype = 'f' ORDER BY r.conname`);
}

export async function viewText(oid) {
  return (await ask(`SELECT pg_catalog.pg_get_viewdef(${Number(oid)}, true) AS text`))[0]?.text ?? '';
}

/** An identifier as SQL has it. Words that SQL may take for its own are quoted like others that need it. */
export function quoted(name) {
  return /^[a-z_][a-z0-9_]*$/.test(name) && !RESERVED.has(name) ? name : `"${name.replaceAll('"', '""')}"`;
}

export function qualified({ schema, name }) {
  return schema === null ? quoted(name) : `${quoted(schema)}.${quoted(name)}`;
}

const RESERVED = new Set(
  `all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate
    collation column concurrently constraint create cross current_catalog current_date current_role
    current_schema current_time current_timestamp current_user default deferrable desc distinct do else end
    except false fetch for foreign freeze from full grant group having ilike in initially inner intersect into
    is isnull join lateral leading left like limit localtime localtimestamp natural not notnull null offset on
    only or order outer overlaps placing primary references returning right select session_user similar some
    symmetric table tablesample then to trailing true union unique user using variadic verbose when where window
    with`.split(/\s+/),
);
