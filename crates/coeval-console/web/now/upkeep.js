// SPDX-License-Identifier: Apache-2.0
// Log, checkpoint, archive, replicas and memory: each as far as this server has it.

import { html } from '../html.js';
import { Facts, Panel } from '../facts.js';
import { Failure } from '../failure.js';
import { bytes, clock, count, milliseconds, moment, since } from '../figures.js';
import { Table } from '../table.js';
import { single } from './figures_text.js';
import { samples } from './samples.js';
import { useQuestion } from './watch.js';

const STORE = 'SELECT durability, checkpoint, version, active_snapshots, oldest_version FROM coeval_store';
const SIZES = `
  SELECT sum(base_bytes) AS base, sum(delta_bytes) AS delta, sum(delta_rows) AS delta_rows, sum(rows) AS rows,
         count(*) AS tables
  FROM coeval_tables`;
const ARCHIVER = `
  SELECT archived_count, last_archived_wal, last_archived_time, failed_count, last_failed_time
  FROM pg_catalog.pg_stat_archiver`;
const REPLICAS = `
  SELECT pid, usename, application_name, client_addr, state, sent_lsn, flush_lsn, replay_lsn, replay_lag, sync_state,
         reply_time
  FROM pg_catalog.pg_stat_replication ORDER BY pid`;
const SLOTS = `
  SELECT slot_name, active, restart_lsn, wal_status, safe_wal_size
  FROM pg_catalog.pg_replication_slots ORDER BY slot_name`;
const MEMORY = 'SELECT used_for, bytes, bytes_max FROM coeval_memory';
// A replica that is idle shows all there is: how old its newest transaction is says nothing then.
const FOLLOWING = `
  SELECT pg_catalog.pg_is_in_recovery() AS follows, pg_catalog.pg_last_wal_replay_lsn() AS replayed,
         pg_catalog.pg_last_xact_replay_timestamp() AS newest, now() AS now`;
const EPOCHS = 'SELECT * FROM coeval_epochs';

function figure(name) {
  return samples.value && single(samples.value.last, name);
}

export function Log() {
  const { rows, error } = useQuestion(STORE, 5000);
  const store = rows?.[0];
  const failures = figure('coeval_checkpoint_failures');
  const rate = samples.value?.series.logBytes.at(-1);
  return html`<${Panel} title="Log and checkpoint"><${Failure} error=${error} />
    <${Facts} facts=${[
      ['Durability', store?.durability],
      ['Checkpoints', store?.checkpoint],
      ['Log written', bytes(figure('coeval_log_bytes'))],
      ['Log per second', rate === null || rate === undefined ? '' : bytes(rate)],
      [
        'Commits',
        figure('coeval_commits_running') === 0
          ? 'have stopped'
          : figure('coeval_commits_running') === null
            ? ''
            : 'go on',
        figure('coeval_commits_running') === 0 ? 'bad' : '',
      ],
      ['Failed checkpoints', count(failures), failures > 0 ? 'bad' : ''],
      ['Failing for', failures > 0 ? milliseconds(figure('coeval_checkpoint_failing_seconds') * 1000) : '', 'bad'],
      [
        'Longest commit lock',
        figure('coeval_leader_longest_seconds') === null
          ? ''
          : milliseconds(figure('coeval_leader_longest_seconds') * 1000),
      ],
    ]} /></${Panel}>`;
}

function Uses({ uses }) {
  return html`<dl class="uses">${uses
    .filter(use => use.bytes !== null)
    .map(use => {
      const most = use.bytes_max === null ? null : Number(use.bytes_max);
      return html`<div key=${use.used_for}><dt>${use.used_for}</dt>
        <dd>${bytes(use.bytes)}${
          most !== null &&
          html` <small>of ${bytes(most)}</small>
          <meter min="0" max=${most} value=${Number(use.bytes)} aria-label=${use.used_for}></meter>`
        }</dd></div>`;
    })}</dl>`;
}

export function Memory() {
  const { rows, error } = useQuestion(SIZES, 5000);
  const epochs = useQuestion(EPOCHS, 5000);
  const memory = useQuestion(MEMORY, 2000);
  const sizes = rows?.[0];
  const epoch = epochs.rows?.[0];
  return html`<${Panel} title="Memory and data"><${Failure} error=${error ?? memory.error} />
    ${memory.rows && html`<${Uses} uses=${memory.rows} />`}
    <${Facts} facts=${[
      ['Base', bytes(sizes?.base)],
      ['Delta', bytes(sizes?.delta)],
      ['Changed since checkpoint', count(sizes?.delta_rows)],
      ['Rows', count(sizes?.rows)],
      ['Tables', count(sizes?.tables)],
      ['Snapshots held', count(figure('coeval_snapshots'))],
      ['Oldest snapshot behind', count(figure('coeval_oldest_snapshot_lag'))],
      ['Epochs: committed', epoch && count(epoch.latest_committed)],
      ['Epochs: purged up to', epoch && count(epoch.latest_safe)],
      [
        'Purge waits for',
        epoch?.oldest_pending_pid
          ? `pid ${epoch.oldest_pending_pid}, appends`
          : epoch?.oldest_held_pid
            ? `pid ${epoch.oldest_held_pid}, reads`
            : '',
      ],
    ]} /></${Panel}>`;
}

export function Archive() {
  const { rows, error } = useQuestion(ARCHIVER, 5000);
  const status = rows?.[0];
  const behind = figure('coeval_archive_behind_bytes');
  const backup = figure('coeval_archive_backup_timestamp_seconds');
  if (
    !error &&
    behind === null &&
    Number(status?.archived_count ?? 0) === 0 &&
    Number(status?.failed_count ?? 0) === 0
  )
    return null;
  return html`<${Panel} title="Archive"><${Failure} error=${error} />
    <${Facts} facts=${[
      ['Behind', behind === null ? '' : bytes(behind)],
      ['Sent', status && count(status.archived_count)],
      ['Up to', status?.last_archived_wal],
      ['Last sent', status?.last_archived_time && `${since(status.last_archived_time)} ago`],
      ['Failures', status && count(status.failed_count), Number(status?.failed_count) > 0 ? 'warning' : ''],
      ['Last failure', clock(status?.last_failed_time)],
      [
        'Last backup',
        backup === null ? '' : backup === 0 ? 'none' : `${milliseconds(Date.now() - backup * 1000)} ago`,
      ],
    ]} /></${Panel}>`;
}

function behindOf(pid) {
  const all = samples.value?.last.get('coeval_replica_behind_bytes') ?? [];
  return stage => all.find(({ labels }) => labels.pid === pid && labels.stage === stage)?.value;
}

export function Replication() {
  const { rows, error } = useQuestion(REPLICAS, 2000);
  const slots = useQuestion(SLOTS, 5000);
  const own = useQuestion(FOLLOWING, 2000).rows?.[0];
  const following = figure('coeval_following');
  const isThere = rows?.length > 0 || slots.rows?.length > 0 || own?.follows === 't' || error;
  if (!isThere) return null;
  const columns = [
    { key: 'pid', label: 'pid', number: true },
    { key: 'application_name', label: 'Replica' },
    { key: 'client_addr', label: 'Client' },
    {
      key: 'state',
      label: 'State',
      cell: row => row.state ?? html`<span class="muted">not shown to this role</span>`,
    },
    { key: 'sync_state', label: 'Kind' },
    { key: 'flushed', label: 'Not flushed', number: true, cell: row => bytes(behindOf(row.pid)('flushed')) },
    { key: 'applied', label: 'Not applied', number: true, cell: row => bytes(behindOf(row.pid)('applied')) },
    { key: 'replay_lag', label: 'Lag', number: true },
    { key: 'replay_lsn', label: 'Applied up to' },
    {
      key: 'reply_time',
      label: 'Last word',
      number: true,
      cell: row => (row.reply_time ? `${since(row.reply_time)} ago` : ''),
    },
  ];
  const slotColumns = [
    { key: 'slot_name', label: 'Slot' },
    { key: 'active', label: 'Used', cell: row => (row.active === 't' ? 'yes' : 'no') },
    { key: 'restart_lsn', label: 'Kept from' },
    {
      key: 'wal_status',
      label: 'Status',
      cell: row => html`<span class=${row.wal_status === 'lost' ? 'bad' : ''}>${row.wal_status}</span>`,
    },
    { key: 'safe_wal_size', label: 'Room left', number: true, cell: row => bytes(row.safe_wal_size) },
  ];
  return html`<${Panel} title="Replication" className="whole"><${Failure} error=${error} />
    ${
      own?.follows === 't' &&
      html`<${Facts} facts=${[
        following !== null && [
          'This replica',
          following === 1 ? 'takes the log' : 'does not take the log',
          following === 1 ? 'good' : 'bad',
        ],
        ['Shows up to', own.replayed],
        ['Not shown yet', bytes(figure('coeval_replica_unshown_bytes'))],
        ['Newest transaction', own.newest && `${since(own.newest, moment(own.now))} ago`],
      ].filter(Boolean)} />`
    }
    ${rows?.length > 0 && html`<${Table} label="Replicas" columns=${columns} rows=${rows} keyOf=${row => row.pid} />`}
    ${slots.rows?.length > 0 && html`<${Table} label="Replication slots" columns=${slotColumns} rows=${slots.rows}
      keyOf=${row => row.slot_name} />`}</${Panel}>`;
}
