// SPDX-License-Identifier: Apache-2.0
// The last five minutes.

import { html } from '../html.js';
import { Failure } from '../failure.js';
import { milliseconds, short } from '../figures.js';
import { Plot } from '../plot.js';
import { SECONDS, STATES, failure, isMonitor, samples } from './samples.js';

const HEIGHT = 150;
const SHORT_STATES = ['active', 'idle', 'open', 'failed'];

function Figure({ title, at, lines, value = short, isLogarithmic = false }) {
  const last = lines.map(({ data }) => data.at(-1) ?? null);
  const now = lines
    .map(({ label }, index) => `${label} ${last[index] === null ? 'unknown' : value(last[index])}`)
    .join(', ');
  return html`<figure class="panel"><figcaption><h2>${title}</h2>
      ${lines.map(
        (
          { label, title: whole },
          index,
        ) => html`<span title=${whole} class="reading series-${index + 1}" key=${label}>
        <span class="key">${label}</span> <b>${last[index] === null ? '–' : value(last[index])}</b></span>`,
      )}</figcaption>
    <${Plot} label="${title}, the last five minutes. Now: ${now}" shape=${title} height=${HEIGHT} legend=${false}
      isTime=${true} seconds=${SECONDS}
      data=${[at, ...lines.map(({ data }) => data)]} value=${value} isLogarithmic=${isLogarithmic} series=${lines} />
        </figure>`;
}

function StatesFigure({ at, states }) {
  const lines = STATES.map((state, index) => ({
    label: SHORT_STATES[index],
    title: state,
    data: states[index],
    steps: true,
  }));
  return html`<${Figure} title="Sessions" at=${at} value=${String} lines=${lines} />`;
}

export function Charts() {
  const known = samples.value;
  if (!known)
    return html`<div class="charts">${failure.value ? html`<${Failure} error=${failure.value} />` : ''}</div>`;
  const { at, commits, statements, errors, p50, p99, commit50, commit99, states } = known.series;
  if (!isMonitor()) {
    return html`<${Failure} error=${failure.value} />
      <p class="muted">The figures of the whole server are shown to superusers and members of pg_monitor. What is below is
        what this role may see; the chart is of its own sessions.</p>
      <div class="charts few"><${StatesFigure} at=${at} states=${states} /></div>`;
  }
  return html`<${Failure} error=${failure.value} /><div class="charts">
    <${Figure} title="Commits" at=${at} lines=${[{ label: 'per second', data: commits }]} />
    <${Figure} title="Statements" at=${at} lines=${[
      { label: 'per second', data: statements },
      { label: 'errors', data: errors },
    ]} />
    <${Figure} title="Statement latency" at=${at} isLogarithmic=${true} value=${milliseconds} lines=${[
      { label: 'p50', data: p50 },
      { label: 'p99', data: p99 },
    ]} />
    <${Figure} title="Commit latency" at=${at} isLogarithmic=${true} value=${milliseconds} lines=${[
      { label: 'p50', title: 'from being applied to being published', data: commit50 },
      { label: 'p99', title: 'from being applied to being published', data: commit99 },
    ]} />
    <${StatesFigure} at=${at} states=${states} /></div>`;
}
