// SPDX-License-Identifier: Apache-2.0
// Who is connected, what each does, and who waits for whom.

import { useState } from '../vendor/libraries.js';
import { html } from '../html.js';
import { ask } from '../server.js';
import { announce } from '../announce.js';
import { confirm } from '../dialog.js';
import { Panel } from '../facts.js';
import { Failure } from '../failure.js';
import { clock, moment, plural, since } from '../figures.js';
import { Table } from '../table.js';
import { Locks } from './locks.js';
import { Statement } from './statement.js';
import { useQuestion } from './watch.js';

const SESSIONS = `
  SELECT a.pid, a.usename, a.application_name, a.client_addr, a.client_port, a.state, a.state_change, a.query_start,
         a.xact_start, a.wait_event_type, a.wait_event, a.query, t.isolation, t.access, now() AS now
  FROM pg_catalog.pg_stat_activity a LEFT JOIN coeval_transactions t ON t.pid = a.pid
  ORDER BY a.pid`;

const ORDER = { active: 0, 'idle in transaction (aborted)': 1, 'idle in transaction': 2, idle: 3 };

const ACTIONS = {
  cancel: {
    call: 'pg_cancel_backend',
    action: 'Cancel its statement',
    title: pid => `Cancel what session ${pid} runs?`,
    done: 'asked to cancel its statement',
  },
  end: {
    call: 'pg_terminate_backend',
    action: 'End the session',
    title: pid => `End session ${pid}?`,
    done: 'asked to end',
  },
};

async function act(kind, session, again) {
  const { call, action, title, done } = ACTIONS[kind];
  const pid = Number(session.pid);
  const who = `${session.usename ?? ''}, ${session.application_name || 'no application name'}`;
  const text = `${who}\n${(session.query ?? '').slice(0, 300)}`;
  if (!(await confirm({ title: title(pid), text, action }))) return null;
  try {
    const [row] = await ask(`SELECT pg_catalog.${call}(${pid}) AS is_done`);
    announce(row.is_done === 't' ? `Session ${pid} was ${done}.` : `Session ${pid} is not there any more.`);
    return null;
  } catch (error) {
    return error;
  } finally {
    again();
  }
}

function stateClass(state) {
  return state === 'active'
    ? 'good'
    : state === 'idle in transaction (aborted)'
      ? 'bad'
      : state === 'idle in transaction'
        ? 'warning'
        : 'muted';
}

export function Sessions() {
  const { rows, error, again } = useQuestion(SESSIONS, 1000);
  const [refusal, setRefusal] = useState(null);
  const button = (kind, label, session) => html`<button type="button" class=${kind === 'end' ? 'danger' : ''}
    aria-label="${label} session ${session.pid}" onClick=${async () => setRefusal(await act(kind, session, again))}>
      ${label}</button>`;
  const sorted = (rows ?? []).toSorted(
    (a, b) => (ORDER[a.state] ?? 4) - (ORDER[b.state] ?? 4) || Number(a.pid) - Number(b.pid),
  );
  const columns = [
    { key: 'pid', label: 'pid', number: true },
    { key: 'usename', label: 'User' },
    { key: 'application_name', label: 'Application' },
    { key: 'client', label: 'Client', cell: row => (row.client_addr ? `${row.client_addr}:${row.client_port}` : '') },
    { key: 'state', label: 'State', cell: row => html`<span class=${stateClass(row.state)}>${row.state}</span>` },
    {
      key: 'since',
      label: 'Since',
      number: true,
      cell: row => html`<span title=${clock(row.state_change)}>${since(row.state_change, moment(row.now))}</span>`,
    },
    {
      key: 'transaction',
      label: 'Transaction',
      cell: row => (row.isolation ? `${row.isolation}${row.access === 'read only' ? ', read only' : ''}` : ''),
    },
    {
      key: 'wait',
      label: 'Waits for',
      cell: row =>
        row.wait_event_type && row.wait_event_type !== 'Client'
          ? html`<span class=${row.wait_event_type === 'Lock' ? 'warning' : 'muted'}>
            ${row.wait_event_type}: ${row.wait_event}</span>`
          : '',
    },
    { key: 'query', label: 'Statement', wide: true, cell: row => html`<${Statement} text=${row.query} />` },
    {
      key: 'actions',
      label: 'Action',
      cell: row =>
        html`<span class="row-actions">
          ${row.state === 'active' && button('cancel', 'Cancel', row)} ${button('end', 'End', row)}</span>`,
    },
  ];
  return html`<${Panel} title="Sessions" note=${rows && plural(rows.length, 'session')} className="whole">
      <${Failure} error=${error ?? refusal} />
      ${rows && html`<${Table} label="Sessions" columns=${columns} rows=${sorted} keyOf=${row => row.pid}
        className="tall" />`}
    </${Panel}>
    <${Locks} sessions=${rows} />`;
}
