// SPDX-License-Identifier: Apache-2.0
// Coeval's own tables, which have no row in pg_class: docs/reference/system-tables.md says what is in them.

export const SYSTEM_TABLES = [
  {
    name: 'coeval_tables',
    columns: [
      'table_schema', 'table_name', 'rows', 'base_chunks', 'base_bytes', 'delta_rows', 'delta_bytes', 'indexes',
      'bytes',
    ],
  },
  {
    name: 'coeval_store',
    columns: [
      'version', 'durability', 'checkpoint', 'active_snapshots', 'oldest_version',
    ],
  },
  {
    name: 'coeval_transactions',
    columns: [
      'pid', 'state', 'isolation', 'access', 'begin_version', 'since', 'holds_boundary', 'transaction',
      'noted_reads', 'first_out_version', 'in_edges',
    ],
  },
  {
    name: 'coeval_snapshots',
    columns: [
      'version', 'versions_behind', 'pid', 'holders', 'since',
    ],
  },
  {
    name: 'coeval_safe_snapshots',
    columns: [
      'version', 'boundary', 'commits_behind', 'age_us', 'holder_transaction', 'holder_pid', 'taken',
      'fallbacks_floor', 'fallbacks_certifying', 'made', 'making_us', 'conflicts', 'conflicts_dangerous',
      'conflicts_declared_read_only',
    ],
  },
  {
    name: 'coeval_conflicts',
    columns: [
      'at', 'sqlstate', 'isolation', 'reason', 'table_name', 'key', 'pid', 'transaction', 'statement',
      'winner_pid', 'winner_transaction', 'winner_statement', 'declared_read_only',
    ],
  },
  {
    name: 'coeval_bricks',
    columns: [
      'table_schema', 'table_name', 'brick', 'ranges', 'rows', 'visible_rows', 'value_bytes', 'bytes',
      'epochs_entries', 'epochs_bytes',
    ],
  },
  {
    name: 'coeval_epochs',
    columns: [
      'next', 'latest_committed', 'latest_safe', 'pending', 'oldest_pending', 'oldest_pending_transaction',
      'oldest_pending_pid', 'oldest_held', 'oldest_held_version', 'oldest_held_pid',
    ],
  },
  {
    name: 'coeval_ingest_offsets',
    columns: [
      'table_schema', 'table_name', 'source', 'last_offset', 'rows',
    ],
  },
];
