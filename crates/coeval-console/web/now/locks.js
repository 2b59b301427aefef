// SPDX-License-Identifier: Apache-2.0
// Who waits for whom, as a picture: sessions, and from each that waits an arrow to each that it waits for. The table below the
// picture says the same in words.

import { html } from '../html.js';
import { Panel } from '../facts.js';
import { Failure } from '../failure.js';
import { moment, plural, since } from '../figures.js';
import { Table } from '../table.js';
import { place } from './lock_graph.js';
import { Statement } from './statement.js';
import { useQuestion } from './watch.js';

const WAITS = `
  SELECT pid, blocked_by, kind, table_name, key, wanted, held, granted
  FROM coeval_lock_waits ORDER BY pid, granted DESC, blocked_by LIMIT 500`;

const NODE = { width: 190, height: 44 };
/** Between one column of sessions and the next there is room for what an arrow is about. */
const STEP = { x: NODE.width + 190, y: NODE.height + 26 };
const EDGE_CHARACTERS = 27;
const NODE_CHARACTERS = 24;

function clip(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/** `accounts (id)=(1)`: what is locked. A role that may not read the table is not told which row. */
function what({ kind, table_name: table, key }) {
  if (kind === 'advisory') return `advisory ${key}`;
  return table === null ? 'a row' : [table, key].filter(Boolean).join(' ');
}

function nameOf(pid, session) {
  if (pid === null) return 'this program';
  return session?.usename ? `${pid} ${session.usename}` : `pid ${pid}`;
}

function Session({ node, session }) {
  const [x, y] = [node.column * STEP.x, node.row * STEP.y];
  const state = session?.state ?? '';
  return html`<g class="lock-session${node.waits ? ' waits' : ''}" transform="translate(${x} ${y})">
    <title>${[nameOf(node.pid, session), state, session?.query].filter(Boolean).join('\n')}</title>
    <rect width=${NODE.width} height=${NODE.height} rx="4" />
    <text x="10" y="18" class="name">${clip(nameOf(node.pid, session), NODE_CHARACTERS)}</text>
    <text x="10" y="35" class="state">${clip(node.waits ? 'waits' : state || 'holds', NODE_CHARACTERS)}</text></g>`;
}

/** From the left of who waits to the right of the other one; past a column between them below it, where it would be hidden. */
function pathOf(from, to) {
  const [begin, end] = [from.column * STEP.x, to.column * STEP.x + NODE.width + 7];
  const [low, high] = [from.row * STEP.y, to.row * STEP.y].map(y => y + NODE.height / 2);
  if (from.column - to.column === 1) {
    const middle = (begin + end) / 2;
    return `M ${begin} ${low} C ${middle} ${low}, ${middle} ${high}, ${end} ${high}`;
  }
  const below = Math.max(low, high) + NODE.height / 2 + 14;
  const turn = 60;
  return `M ${begin} ${low} C ${begin - turn} ${low}, ${begin - turn} ${below}, ${begin - 2 * turn} ${below}
    L ${end + 2 * turn} ${below} C ${end + turn} ${below}, ${end + turn} ${high}, ${end} ${high}`;
}

function Wait({ edge, isLabelled, from, to }) {
  const begin = { x: from.column * STEP.x, y: from.row * STEP.y + NODE.height / 2 };
  // Beside who waits, where arrows of several that wait for one do not meet yet.
  const label = { x: begin.x - 8, y: begin.y };
  return html`<g class="lock-wait${edge.granted === 't' ? '' : ' queued'}">
    <title>${`${what(edge)}: wants ${edge.wanted}, ${edge.granted === 't' ? 'held' : 'wanted before'}: ${edge.held}`}
      </title>
    <path d=${pathOf(from, to)} marker-end="url(#lock-arrow)" />
    ${
      isLabelled &&
      html`<text x=${label.x} y=${label.y - 5} text-anchor="end">${clip(what(edge), EDGE_CHARACTERS)}</text>
        <text x=${label.x} y=${label.y + 14} text-anchor="end" class="state">${edge.wanted}</text>`
    }</g>`;
}

function Picture({ waits, sessions }) {
  const { nodes, columns, rows } = place(waits);
  const byPid = new Map(sessions.map(session => [session.pid, session]));
  const label = `${plural(nodes.filter(({ waits: is }) => is).length, 'session')} waiting for others: see the table`;
  const [width, height] = [(columns - 1) * STEP.x + NODE.width + 2, rows * STEP.y];
  const find = pid => nodes.find(node => node.pid === pid);
  return html`<div class="lock-picture" tabindex="0" role="region" aria-label="Picture of the waits">
    <svg role="img" aria-label=${label} width=${width + 2} height=${height + 2} viewBox="-1 -1 ${width + 2} ${height + 2}">
    <defs><marker id="lock-arrow" viewBox="0 0 8 8" refX="1" refY="4" markerWidth="7" markerHeight="7" orient="auto">
      <path d="M 0 0 L 8 4 L 0 8 z" /></marker></defs>
    ${waits.map(
      (edge, at) => html`<${Wait} key="${edge.pid}-${edge.blocked_by}-${edge.kind}-${edge.key}" edge=${edge}
        isLabelled=${waits.findIndex(({ pid }) => pid === edge.pid) === at}
        from=${find(edge.pid)} to=${find(edge.blocked_by)} />`,
    )}
    ${nodes.map(node => html`<${Session} key=${node.pid} node=${node} session=${byPid.get(node.pid)} />`)}
    </svg></div>`;
}

export function Locks({ sessions }) {
  const { rows: waits, error } = useQuestion(WAITS, 1000);
  const byPid = new Map((sessions ?? []).map(session => [session.pid, session]));
  const columns = [
    { key: 'pid', label: 'pid', number: true },
    { key: 'what', label: 'Waits for', cell: row => html`<code>${what(row)}</code>` },
    { key: 'wanted', label: 'Wants' },
    {
      key: 'blocked_by',
      label: 'Because of',
      cell: row =>
        `${row.blocked_by === null ? 'this program' : `pid ${row.blocked_by}`}, ${
          row.granted === 't' ? 'holds' : 'wanted before'
        } ${row.held}`,
    },
    {
      key: 'since',
      label: 'Statement for',
      number: true,
      cell: row => {
        const session = byPid.get(row.pid);
        return session ? since(session.query_start, moment(session.now)) : '';
      },
    },
    {
      key: 'query',
      label: 'Statement',
      wide: true,
      cell: row => html`<${Statement} text=${byPid.get(row.pid)?.query} />`,
    },
  ];
  const count = new Set(waits?.map(({ pid }) => pid)).size;
  return html`<${Panel} title="Waits for locks" note=${count > 0 && plural(count, 'session')} className="whole">
    <${Failure} error=${error} />
    ${waits?.length > 0 && html`<${Picture} waits=${waits} sessions=${sessions ?? []} />`}
    ${waits && html`<${Table} label="Waits for locks" columns=${columns} rows=${waits}
      keyOf=${row => `${row.pid}-${row.blocked_by}-${row.kind}-${row.key}`} empty="Nobody waits for a lock." />`}
    </${Panel}>`;
}
