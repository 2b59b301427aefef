// SPDX-License-Identifier: Apache-2.0
// Log, checkpoint, archive and memory: each as far as this server has it.

import { html } from '../html.js';
import { Facts, Panel } from '../facts.js';
import { Failure } from '../failure.js';
import { bytes, clock, count, milliseconds, moment, since } from '../figures.js';
import { figure, samples } from './samples.js';
import { useQuestion } from './watch.js';

const STORE = 'SELECT durability, checkpoint, version, active_snapshots, oldest_version FROM coeval_store';
const SIZES = `
  SELECT sum(base_bytes) AS base, sum(delta_bytes) AS delta, sum(delta_rows) AS delta_rows, sum(rows) AS rows,
         count(*) AS tables
  FROM coeval_tables`;
const ARCHIVER = `
  SELECT archived_count, last_archived_wal, last_archived_time, failed_count, last_failed_time, now() AS now
  FROM pg_catalog.pg_stat_archiver`;
const MEMORY = 'SELECT used_for, bytes, bytes_max FROM coeval_memory';
const EPOCHS = 'SELECT * FROM coeval_epochs';

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

/** What time it is by the server's clock, as far as it has said so: the browser's may be another one. */
function nowOf(row) {
  return row ? moment(row.now) : Date.now();
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
      ['Last sent', status?.last_archived_time && `${since(status.last_archived_time, nowOf(status))} ago`],
      ['Failures', status && count(status.failed_count), Number(status?.failed_count) > 0 ? 'warning' : ''],
      ['Last failure', clock(status?.last_failed_time)],
      [
        'Last backup',
        backup === null ? '' : backup === 0 ? 'none' : `${milliseconds(nowOf(status) - backup * 1000)} ago`,
      ],
    ]} /></${Panel}>`;
}
