// SPDX-License-Identifier: Apache-2.0
// The plan of a statement as a tree, out of EXPLAIN's JSON. Rows and times of a node stand in its details once the
// statement has run.

import { useEffect, useState } from '../vendor/libraries.js';
import { html } from '../html.js';
import { Failure } from '../failure.js';
import { milliseconds } from '../figures.js';

const UNITS = { ns: 1e-6, µs: 1e-3, us: 1e-3, ms: 1, s: 1e3, m: 6e4 };
const FACTORS = { '': 1, K: 1e3, M: 1e6, B: 1e9, T: 1e12 };

/** `1.5 ms`, `2m3s`: milliseconds. */
function timeOf(text) {
  let sum = null;
  for (const [, number, unit] of (text ?? '').matchAll(/([\d.]+)\s*(ns|µs|us|ms|s|m)/g))
    sum = (sum ?? 0) + number * UNITS[unit];
  return sum;
}

function countOf(text) {
  const found = /^([\d.,]+)\s*([KMBT]?)$/.exec((text ?? '').trim());
  return found ? Number(found[1].replaceAll(',', '')) * FACTORS[found[2]] : null;
}

/** A node: what it is, what it does, what was measured. */
export function read(node) {
  const details = node.Details ?? '';
  const metrics = /,?\s*metrics=\[(.*)\]\s*$/s.exec(details);
  const measured = Object.fromEntries(
    [...(metrics?.[1] ?? '').matchAll(/(\w+)=([^,=]*(?:\{[^}]*\})?)(?:, |$)/g)].map(([, key, value]) => [key, value]),
  );
  return {
    type: node['Node Type'],
    details: metrics ? details.slice(0, metrics.index) : details,
    rows: countOf(measured.output_rows) ?? node['Actual Rows'] ?? null,
    rowsText: measured.output_rows ?? node['Actual Rows']?.toString() ?? '',
    time: timeOf(measured.elapsed_compute) ?? node['Actual Total Time'] ?? null,
    others: Object.entries(measured).filter(([key]) => key !== 'output_rows' && key !== 'elapsed_compute'),
    below: (node.Plans ?? []).map(read),
  };
}

/** The tree, line by line. */
export function flatten(node, depth = 0) {
  return [{ ...node, depth }, ...node.below.flatMap(below => flatten(below, depth + 1))];
}

function Line({ node, timeMax, isMeasured }) {
  const share = timeMax > 0 && node.time !== null ? node.time / timeMax : 0;
  return html`<tr>
    <th scope="row" style=${{ paddingLeft: `${10 + node.depth * 18}px` }}>
      <span class="visually-hidden">Level ${node.depth + 1}: </span><span class="node-type">${node.type}</span>
      ${node.details && html` <span class="node-details">${node.details}</span>`}
      ${
        node.others.length > 0 &&
        html`<details class="node-metrics"><summary>${node.others.length} more figures</summary>
        <dl>${node.others.map(([key, value]) => html`<div><dt>${key}</dt><dd>${value}</dd></div>`)}</dl></details>`
      }</th>
    ${
      isMeasured &&
      html`<td class="number">${node.rowsText}</td>
      <td class="number">${node.time === null ? '' : milliseconds(node.time)}</td>
      <td class="share" aria-hidden="true"><span style=${{ width: `${Math.round(share * 100)}%` }}></span></td>`
    }</tr>`;
}

export function Plan({ result }) {
  const [document, setDocument] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    if (!result.isDone) return;
    result.rows
      .first(1)
      .then(([[text]]) => setDocument(JSON.parse(text)[0]))
      .catch(setError);
  }, [result.isDone]);
  if (error) return html`<${Failure} error=${error} />`;
  if (!document) return html`<p class="empty">Planning.</p>`;
  const lines = document.Plan ? flatten(read(document.Plan)) : [];
  const isMeasured = lines.some(({ rows, time }) => rows !== null || time !== null);
  const timeMax = Math.max(0, ...lines.map(({ time }) => time ?? 0));
  const planning = document['Planning Time'];
  const execution = document['Execution Time'];
  return html`<div class="plan">
    ${
      execution !== undefined &&
      html`<p class="plan-times">Planning <b>${milliseconds(planning)}</b>, execution
      <b> ${milliseconds(execution)}</b>${document.Result && html`, <code>${document.Result}</code>`}.
      ${isMeasured && " A node's time is that of its own work, of all threads together."}</p>`
    }
    <table aria-label="Plan"><thead><tr><th scope="col">Node</th>
      ${
        isMeasured &&
        html`<th scope="col" class="number">Rows</th><th scope="col" class="number">Time</th>
        <th scope="col"><span class="visually-hidden">Share of the longest time</span></th>`
      }</tr></thead>
      <tbody>${lines.map((node, index) => html`<${Line} key=${index} node=${node} timeMax=${timeMax}
        isMeasured=${isMeasured} />`)}</tbody>
    </table></div>`;
}
