// SPDX-License-Identifier: Apache-2.0
// Who follows this server and how far each is behind, whether commits wait for them, what is kept for who is away; and whom this one
// follows.

import { html } from '../html.js';
import { Facts, Panel } from '../facts.js';
import { Failure } from '../failure.js';
import { bytes, count, moment, since } from '../figures.js';
import { Table } from '../table.js';
import { figure, samples } from './samples.js';
import { synchronous } from './synchronous.js';
import { useQuestion } from './watch.js';

const REPLICAS = `
  SELECT pid, usename, application_name, client_addr, state, sent_lsn, flush_lsn, replay_lsn, replay_lag, sync_state,
         reply_time, now() AS now
  FROM pg_catalog.pg_stat_replication ORDER BY pid`;
const SLOTS = `
  SELECT slot_name, active, restart_lsn, wal_status, safe_wal_size
  FROM pg_catalog.pg_replication_slots ORDER BY slot_name`;
const WAITED_FOR = `
  SELECT pg_catalog.current_setting('synchronous_standby_names') AS names,
         (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE wait_event = 'SyncRep') AS waiting`;
// A replica that is idle shows all there is: how old its newest transaction is says nothing then.
const FOLLOWING = `
  SELECT pg_catalog.pg_is_in_recovery() AS follows, pg_catalog.pg_last_wal_replay_lsn() AS replayed,
         pg_catalog.pg_last_xact_replay_timestamp() AS newest, now() AS now`;

/** A replica says how far it is at least once a second. */
const SILENT_MS = 10_000;

/** Bytes of the log that a replica does not have to some stage; nothing before it has said how far it is. */
function behind(row, stage) {
  if (!row.reply_time) return null;
  const all = samples.value?.last.get('coeval_replica_behind_bytes') ?? [];
  return all.find(({ labels }) => labels.pid === row.pid && labels.stage === stage)?.value;
}

function LastWord({ row }) {
  if (!row.reply_time) return null;
  const isSilent = moment(row.now) - moment(row.reply_time) > SILENT_MS;
  return html`<span class=${isSilent ? 'warning' : ''}>${since(row.reply_time, moment(row.now))} ago</span>`;
}

const REPLICA_COLUMNS = [
  { key: 'pid', label: 'pid', number: true },
  { key: 'application_name', label: 'Replica' },
  { key: 'client_addr', label: 'Client' },
  {
    key: 'state',
    label: 'State',
    cell: row => row.state ?? html`<span class="muted">not shown to this role</span>`,
  },
  { key: 'sync_state', label: 'Kind' },
  { key: 'flushed', label: 'Not flushed', number: true, cell: row => bytes(behind(row, 'flushed')) },
  { key: 'applied', label: 'Not applied', number: true, cell: row => bytes(behind(row, 'applied')) },
  { key: 'replay_lag', label: 'Lag', number: true },
  { key: 'replay_lsn', label: 'Applied up to' },
  { key: 'reply_time', label: 'Last word', number: true, cell: row => html`<${LastWord} row=${row} />` },
];

const STATUS_CLASSES = { lost: 'bad', unreserved: 'warning' };

const SLOT_COLUMNS = [
  { key: 'slot_name', label: 'Slot' },
  { key: 'active', label: 'Used', cell: row => (row.active === 't' ? 'yes' : 'no') },
  { key: 'restart_lsn', label: 'Kept from' },
  {
    key: 'wal_status',
    label: 'Status',
    cell: row => html`<span class=${STATUS_CLASSES[row.wal_status] ?? ''}>${row.wal_status}</span>`,
  },
  { key: 'safe_wal_size', label: 'Room left', number: true, cell: row => bytes(row.safe_wal_size) },
];

/** Which replicas commits wait for, and whether they are there. */
function WaitedFor({ waited, standing }) {
  return html`<${Facts} facts=${[
    ['Commits wait for', waited.names],
    ['Of these connected', count(standing.connected), standing.mark],
    ['Sessions that wait for them', Number(waited.waiting) > 0 ? count(waited.waiting) : '', standing.mark],
  ]} />`;
}

/** How this server follows another one. */
function Following({ own }) {
  const following = figure('coeval_following');
  return html`<${Facts} facts=${[
    following !== null && [
      'This replica',
      following === 1 ? 'takes the log' : 'does not take the log',
      following === 1 ? 'good' : 'bad',
    ],
    ['Shows up to', own.replayed],
    ['Not shown yet', bytes(figure('coeval_replica_unshown_bytes'))],
    ['Newest transaction', own.newest && `${since(own.newest, moment(own.now))} ago`],
  ].filter(Boolean)} />`;
}

export function Replication() {
  const { rows, error } = useQuestion(REPLICAS, 2000);
  const slots = useQuestion(SLOTS, 5000);
  const waited = useQuestion(WAITED_FOR, 2000).rows?.[0];
  const own = useQuestion(FOLLOWING, 2000).rows?.[0];
  const isFollowing = own?.follows === 't';
  // A replica has its primary's list, and no commits of its own that would wait.
  const isPrimary = own?.follows === 'f';
  const standing = isPrimary && waited && rows ? synchronous(waited.names, rows, Number(waited.waiting)) : null;
  const isThere = rows?.length > 0 || slots.rows?.length > 0 || isFollowing || standing || error;
  if (!isThere) return null;
  return html`<${Panel} title="Replication" className="whole"><${Failure} error=${error} />
    ${isFollowing && html`<${Following} own=${own} />`}
    ${standing && html`<${WaitedFor} waited=${waited} standing=${standing} />`}
    ${
      (rows?.length > 0 || standing) &&
      html`<${Table} label="Replicas" columns=${REPLICA_COLUMNS} rows=${rows} keyOf=${row => row.pid}
        empty="No replica is connected." />`
    }
    ${slots.rows?.length > 0 && html`<${Table} label="Replication slots" columns=${SLOT_COLUMNS} rows=${slots.rows}
      keyOf=${row => row.slot_name} />`}</${Panel}>`;
}
