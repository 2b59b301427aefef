// SPDX-License-Identifier: Apache-2.0
// A chart of a result: its first column along x, its columns of numbers along y, unless chosen otherwise.

import { useEffect, useMemo, useState } from '../vendor/libraries.js';
import { html } from '../html.js';
import { Failure } from '../failure.js';
import { count, moment } from '../figures.js';
import { Plot, SERIES_COLOURS } from '../plot.js';
import { isNumber, isTime } from './columns.js';

const POINTS_MAX = 5000;

function numbers(rows, index) {
  return rows.map(row => {
    const number = row[index] === null ? NaN : Number(row[index]);
    return Number.isFinite(number) ? number : null;
  });
}

/** What uPlot takes: x ascending, y beside it. */
function prepare(columns, rows, x, ys, kind) {
  const { type } = columns[x];
  const isMoments = isTime(type);
  // Bars stand side by side, whatever lies between their values.
  const isPlaces = kind === 'bar' || (!isNumber(type) && !isMoments);
  if (isPlaces) {
    const labels = rows.map(row => row[x] ?? 'NULL');
    return { labels, isTime: false, data: [rows.map((_, index) => index), ...ys.map(y => numbers(rows, y))] };
  }
  const at = rows.map(row => (isMoments ? moment(row[x]) / 1000 : row[x] === null ? NaN : Number(row[x])));
  const order = rows
    .map((_, index) => index)
    .filter(index => Number.isFinite(at[index]))
    .sort((a, b) => at[a] - at[b]);
  const all = ys.map(y => numbers(rows, y));
  return {
    labels: null,
    isTime: isMoments,
    data: [order.map(index => at[index]), ...all.map(one => order.map(index => one[index]))],
  };
}

export function Chart({ result }) {
  const { columns } = result;
  const numeric = columns.flatMap(({ type }, index) => (isNumber(type) ? [index] : []));
  const [x, setX] = useState(0);
  const [ys, setYs] = useState(() =>
    numeric.filter(index => index !== 0 || numeric.length === 1).slice(0, SERIES_COLOURS),
  );
  const [kind, setKind] = useState(() => (isTime(columns[0]?.type) || isNumber(columns[0]?.type) ? 'line' : 'bar'));
  const [rows, setRows] = useState(null);
  const [error, setError] = useState(null);
  const wanted = Math.min(result.count, POINTS_MAX);
  useEffect(() => {
    let isWanted = true;
    result.rows.first(wanted).then(found => {
      if (isWanted) setRows(found);
    }, setError);
    return () => {
      isWanted = false;
    };
  }, [result.rows, result.isDone]);
  const chosen = ys.filter(y => numeric.includes(y));
  const prepared = useMemo(() => rows && prepare(columns, rows, x, chosen, kind), [rows, x, ys, kind]);
  const toggle = (index, on) => setYs(on ? [...ys, index].sort((a, b) => a - b) : ys.filter(y => y !== index));
  if (error) return html`<${Failure} error=${error} />`;
  if (numeric.length === 0) return html`<p class="empty">No column of this result is a number.</p>`;
  const lines = chosen.map(y => columns[y].name).join(', ');
  const points = `${count(rows?.length ?? 0)} points`;
  const name = `${kind === 'bar' ? 'Bars' : 'Lines'} of ${lines} by ${columns[x].name}, ${points}`;
  return html`<div class="chart">
    <div class="bar">
      <fieldset class="choice"><legend class="visually-hidden">Kind</legend>
        ${[
          ['bar', 'Bars'],
          ['line', 'Lines'],
        ].map(
          ([key, label]) => html`<label>
          <input type="radio" name="chart-kind" checked=${kind === key} onChange=${() => setKind(key)} /><span>
            ${label}</span></label>`,
        )}</fieldset>
      <label>x <select value=${x} onChange=${event => setX(Number(event.target.value))}>
        ${columns.map(({ name: column }, index) => html`<option value=${index}>${column}</option>`)}</select></label>
      <fieldset class="ys"><legend>y</legend>${numeric.map(
        index => html`<label class="check" key=${index}>
        <input type="checkbox" checked=${ys.includes(index)}
          onChange=${event => toggle(index, event.target.checked)} />
        <span>${columns[index].name}</span></label>`,
      )}</fieldset>
      ${result.count > POINTS_MAX && html`<small>the first ${count(POINTS_MAX)} of ${count(result.count)} rows</small>`}
    </div>
    ${
      prepared &&
      chosen.length > 0 &&
      html`<${Plot} label=${name} shape="${x}/${chosen}/${kind}/${rows.length}" data=${prepared.data}
      labels=${prepared.labels} xLabel=${columns[x].name} isTime=${prepared.isTime}
        series=${chosen.map(y => ({ label: columns[y].name, bars: kind === 'bar' }))} />`
    }
  </div>`;
}
