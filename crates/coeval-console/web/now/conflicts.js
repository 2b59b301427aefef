// SPDX-License-Identifier: Apache-2.0
// Transactions that were refused with 40001: which two, where, and what they ran.

import { useState } from '../vendor/libraries.js';
import { html } from '../html.js';
import { Panel } from '../facts.js';
import { Failure } from '../failure.js';
import { clock, count, moment, plural, since } from '../figures.js';
import { Table } from '../table.js';
import { Statement } from './statement.js';
import { useQuestion } from './watch.js';

const GROUPS = `
  SELECT table_name, reason, isolation, count(*) AS conflicts, max("at") AS latest, now() AS now
  FROM coeval_conflicts GROUP BY table_name, reason, isolation ORDER BY count(*) DESC, table_name, reason LIMIT 50`;

const LATEST = `
  SELECT "at", isolation, reason, table_name, key, pid, "transaction", statement, winner_pid, winner_transaction,
         winner_statement, declared_read_only
  FROM coeval_conflicts ORDER BY "at" DESC LIMIT 100`;

const name = row => `${row.table_name}/${row.reason}/${row.isolation}`;

function who(pid, transaction) {
  const parts = [];
  if (pid) parts.push(`pid ${pid}`);
  if (transaction) parts.push(`transaction ${transaction}`);
  return html`<div class="who">${parts.join(', ') || 'unknown'}</div>`;
}

export function Conflicts() {
  const groups = useQuestion(GROUPS, 3000);
  const latest = useQuestion(LATEST, 3000);
  const [chosen, setChosen] = useState(null);
  if (groups.error || latest.error) {
    return html`<${Panel} title="Conflicts" className="whole"><${Failure} error=${groups.error ?? latest.error} />
      </${Panel}>`;
  }
  const all = groups.rows?.reduce((sum, row) => sum + Number(row.conflicts), 0);
  const toggle = key => setChosen(chosen === key ? null : key);
  const groupColumns = [
    {
      key: 'table_name',
      label: 'Table',
      cell: row => html`<button type="button" aria-pressed=${chosen === name(row)}
      onClick=${() => toggle(name(row))} title="Only these below">${row.table_name ?? 'no table'}</button>`,
    },
    { key: 'reason', label: 'Reason' },
    { key: 'isolation', label: 'Level of who was refused' },
    { key: 'conflicts', label: 'Count', number: true, cell: row => count(row.conflicts) },
    { key: 'latest', label: 'Latest', number: true, cell: row => `${since(row.latest, moment(row.now))} ago` },
  ];
  const columns = [
    { key: 'at', label: 'When', cell: row => html`<time datetime=${row.at}>${clock(row.at)}</time>` },
    {
      key: 'table_name',
      label: 'Where',
      cell: row => html`<div>${row.table_name ?? ''}</div><code>${row.key ?? ''}</code>`,
    },
    {
      key: 'reason',
      label: 'Why',
      cell: row =>
        html`<div>${row.reason}</div><small>
          ${row.isolation}${row.declared_read_only === 't' ? ', with a declared reader' : ''}</small>`,
    },
    {
      key: 'refused',
      label: 'Refused',
      wide: true,
      cell: row => html`${who(row.pid, row.transaction)}<${Statement} text=${row.statement} />`,
    },
    {
      key: 'winner',
      label: 'Was first',
      wide: true,
      cell: row => html`${who(row.winner_pid, row.winner_transaction)}<${Statement} text=${row.winner_statement} />`,
    },
  ];
  const shown = (latest.rows ?? []).filter(row => chosen === null || name(row) === chosen);
  return html`<${Panel} title="Conflicts" className="whole"
    note=${all > 0 && `${plural(all, 'conflict')}; the latest thousand are kept`}>
    ${
      groups.rows &&
      html`<${Table} label="Conflicts by table and reason" columns=${groupColumns} rows=${groups.rows} keyOf=${name}
        className="medium"
      empty="No transaction was refused since the database was opened." />`
    }
    ${
      shown.length > 0 &&
      html`<h3>Latest${chosen && html` <button type="button" class="link"
        onClick=${() => setChosen(null)}>show all</button>`}</h3>
      <${Table} label="Latest conflicts" columns=${columns} rows=${shown} className="tall" />`
    }</${Panel}>`;
}
