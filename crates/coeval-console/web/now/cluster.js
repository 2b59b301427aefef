// SPDX-License-Identifier: Apache-2.0
// The cluster that this server is a node of: who takes part, and a map of what bricks each node has.

import { html } from '../html.js';
import { Panel } from '../facts.js';
import { Failure } from '../failure.js';
import { bytes, count, plural } from '../figures.js';
import { Table } from '../table.js';
import { useQuestion } from './watch.js';

const NODES = `
  SELECT node, address, is_own, has_keeper, state, connection, last_error, bricks, rows, bytes, bricks_to_come,
    has_answered
  FROM coeval_cluster_nodes ORDER BY node`;

const STATE_CLASSES = { away: 'bad', joining: 'warning', draining: 'warning', unknown: 'warning', removed: 'muted' };

/** The state of a node, marked if there is something to look at. */
function State({ row }) {
  return html`<span class=${STATE_CLASSES[row.state] ?? ''}>${row.state}</span>`;
}

/** The bricks of the node that has, or is to have, most of them. */
function mostBricks(rows) {
  return Math.max(1, ...rows.map(row => Number(row.bricks ?? 0) + Number(row.bricks_to_come ?? 0)));
}

/** A node on the map: how much it has, beside the one that has most. */
function Node({ row, most }) {
  const name = `Node ${row.node}${row.is_own === 't' ? ', this one' : ''}`;
  const toCome = Number(row.bricks_to_come ?? 0);
  return html`<div><dt>${name} <${State} row=${row} /></dt>
    <dd>${
      row.bricks === null
        ? html`<span class="muted">${row.has_answered === 'f' ? 'does not answer' : 'has not said what it has'}</span>`
        : html`${plural(row.bricks, 'brick')}${toCome > 0 && html` <small>${count(toCome)} to come</small>`}
          <meter min="0" max=${most} value=${Number(row.bricks)} aria-label="Bricks of node ${row.node}"></meter>`
    }</dd></div>`;
}

/** Nodes that are out for good have no place on it. */
function NodeMap({ rows }) {
  const present = rows.filter(row => row.state !== 'removed');
  const most = mostBricks(present);
  return html`<dl class="uses" aria-label="Bricks by node">${present.map(
    row => html`<${Node} key=${row.node} row=${row} most=${most} />`,
  )}</dl>`;
}

const COLUMNS = [
  { key: 'node', label: 'Node', number: true },
  { key: 'address', label: 'Address' },
  { key: 'state', label: 'State', cell: row => html`<${State} row=${row} />` },
  { key: 'has_keeper', label: 'Keeper', cell: row => (row.has_keeper === 't' ? 'here' : '') },
  { key: 'bricks', label: 'Bricks', number: true, cell: row => count(row.bricks) },
  { key: 'bricks_to_come', label: 'To come', number: true, cell: row => count(row.bricks_to_come) },
  { key: 'rows', label: 'Rows', number: true, cell: row => count(row.rows) },
  { key: 'bytes', label: 'Memory', number: true, cell: row => bytes(row.bytes) },
  {
    key: 'connection',
    label: 'Connection',
    cell: row => (row.is_own === 't' ? html`<span class="muted">this one</span>` : (row.connection ?? '')),
  },
  { key: 'last_error', label: 'Last error', wide: true },
];

export function Cluster() {
  // Each node looks at all its bricks for that, which nothing waits for there.
  const { rows, error } = useQuestion(NODES, 5000);
  if (!error && !(rows?.length > 0)) return null;
  return html`<${Panel} title="Cluster" className="whole"><${Failure} error=${error} />
    ${
      rows?.length > 0 &&
      html`<${NodeMap} rows=${rows} />
      <${Table} label="Nodes" columns=${COLUMNS} rows=${rows} keyOf=${row => row.node} />`
    }</${Panel}>`;
}
