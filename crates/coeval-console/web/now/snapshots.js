// SPDX-License-Identifier: Apache-2.0
// How far safe snapshots are behind, and which versions are held, by whom.

import { html } from '../html.js';
import { Facts, Panel } from '../facts.js';
import { Failure } from '../failure.js';
import { count, milliseconds, moment, plural, since } from '../figures.js';
import { Table } from '../table.js';
import { useQuestion } from './watch.js';

const SAFE = 'SELECT * FROM coeval_safe_snapshots';

const HELD = `
  SELECT s.version, s.versions_behind, s.pid, s.holders, s.since, a.usename, a.application_name, now() AS now
  FROM coeval_snapshots s LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = s.pid
  ORDER BY s.version LIMIT 200`;

export function SafeSnapshots() {
  const { rows, error } = useQuestion(SAFE, 1000);
  const safe = rows?.[0];
  return html`<${Panel} title="Safe snapshots"><${Failure} error=${error} />
    ${
      safe &&
      html`<${Facts} facts=${[
        ['Age', Number(safe.age_us) === 0 ? 'nothing is lacking' : milliseconds(Number(safe.age_us) / 1000)],
        ['Commits behind', count(safe.commits_behind)],
        [
          'Held back by',
          safe.holder_transaction === null
            ? 'nobody'
            : `${safe.holder_pid === null ? '' : `pid ${safe.holder_pid}, `}transaction ${safe.holder_transaction}`,
        ],
        ['Newest version', count(safe.version)],
        ['Has everything up to', count(safe.boundary)],
        ['Taken', count(safe.taken)],
        ['Not taken: behind the session', count(safe.fallbacks_floor)],
        ['Not taken: while certifying', count(safe.fallbacks_certifying)],
        ['Made', `${count(safe.made)} in ${milliseconds(Number(safe.making_us) / 1000)}`],
        ['Refused transactions', count(safe.conflicts)],
        ["by SERIALIZABLE's rules", count(safe.conflicts_dangerous)],
        ['with a declared reader', count(safe.conflicts_declared_read_only)],
      ]} />`
    }</${Panel}>`;
}

export function Held() {
  const { rows, error } = useQuestion(HELD, 2000);
  const columns = [
    { key: 'version', label: 'Version', number: true, cell: row => count(row.version) },
    { key: 'versions_behind', label: 'Behind', number: true, cell: row => count(row.versions_behind) },
    {
      key: 'holder',
      label: 'Held by',
      cell: row =>
        row.pid === null
          ? `${plural(row.holders, 'other holder')}`
          : `pid ${row.pid} ${row.usename ?? ''} ${row.application_name ?? ''}`,
    },
    { key: 'since', label: 'For', number: true, cell: row => since(row.since, moment(row.now)) },
  ];
  return html`<${Panel} title="Versions held" note=${rows && plural(rows.length, 'holder')}><${Failure}
    error=${error} />
    ${rows && html`<${Table} label="Versions held" columns=${columns} rows=${rows} className="medium"
      empty="No version but the newest is held." />`}</${Panel}>`;
}
