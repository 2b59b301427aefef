// SPDX-License-Identifier: Apache-2.0
// What a run gave: each result with rows under a tab of its own, and the messages of all.

import { useEffect, useState } from '../vendor/libraries.js';
import { html } from '../html.js';
import { download } from '../server.js';
import { count, plural } from '../figures.js';
import { COMMAND } from '../keys.js';
import { TabList } from '../tab_list.js';
import { Chart } from './chart.js';
import { Grid } from './grid.js';
import { Messages } from './messages.js';
import { Plan } from './plan.js';

const MESSAGES = 'messages';

/** What is looked at unless something was chosen: the error, or the last result. */
function first({ error, results }) {
  return error || results.length === 0 ? MESSAGES : String(results.at(-1).number);
}

/** `2: 5 rows so far`: which result it is, where there are several, and how many rows it has. */
function resultLabel(run, { count: rows, isDone }, place) {
  if (run.kind === 'plan') return 'Plan';
  const number = run.results.length > 1 ? `${place + 1}: ` : '';
  return `${number}${plural(rows, 'row')}${isDone ? '' : ' so far'}`;
}

function tabsOf(run) {
  const results = run.results.map((result, place) => ({
    key: String(result.number),
    label: resultLabel(run, result, place),
  }));
  const mark = run.error ? 'error' : undefined;
  return [
    ...results,
    { key: MESSAGES, label: `Messages${run.messages.length > 0 ? ` (${run.messages.length})` : ''}`, mark },
  ];
}

function Result({ tab, run, result }) {
  const [view, setView] = useState('table');
  const [notSaved, setNotSaved] = useState(null);
  const save = format => download(tab.id, result.number, format).then(() => setNotSaved(null), setNotSaved);
  const saved = format => html`<button type="button" onClick=${() => save(format)}>
    ${format === 'json' ? 'JSON' : 'CSV'}</button>`;
  const { error, end } = result.rows;
  const kept = `cut: ${end.value === null ? 'not all' : `only the first ${count(end.value)}`} rows are kept`;
  return html`<div class="result">
    <div class="bar">
      <fieldset class="choice"><legend class="visually-hidden">View</legend>
        ${[
          ['table', 'Table'],
          ['chart', 'Chart'],
        ].map(
          ([key, label]) => html`<label>
          <input type="radio" name="view-${run.number}-${result.number}" checked=${view === key}
            onChange=${() => setView(key)} />
          <span>${label}</span></label>`,
        )}</fieldset>
      <span class="grow">${result.truncated && html`<span class="warning">${kept}</span>`}
        ${error.value && html`<span class="bad">${error.value.message}</span>`}
        ${notSaved && html`<span class="bad" role="alert">${notSaved.message}</span>`}</span>
      ${result.isDone && tab.id !== null && html`<span class="save">Save as ${saved('csv')} ${saved('json')}</span>`}
    </div>
    ${
      view === 'table'
        ? html`<${Grid} columns=${result.columns} rows=${result.rows} total=${result.count} label="Result" />`
        : html`<${Chart} result=${result} />`
    }</div>`;
}

export function Results({ tab, onPlace }) {
  const run = tab.run.value;
  const [choice, setChoice] = useState({});
  useEffect(() => setChoice({}), [tab]);
  if (!run) return html`<p class="empty">${COMMAND}+Enter runs the text, or what is selected of it.</p>`;
  const list = tabsOf(run);
  const isKnown = choice.run === run.number && list.some(({ key }) => key === choice.key);
  const chosen = isKnown ? choice.key : first(run);
  const result = run.results.find(({ number }) => String(number) === chosen);
  return html`<div class="results">
    <${TabList} label="Results" tabs=${list} chosen=${chosen} panel="result" className="small"
      onChoose=${key => setChoice({ run: run.number, key })} />
    <div class="result-panel" role="tabpanel" id="result" aria-labelledby="result-tab-${chosen}">
      ${
        chosen === MESSAGES
          ? html`<${Messages} messages=${run.messages} onPlace=${onPlace} />`
          : run.kind === 'plan'
            ? html`<${Plan} key=${run.number} result=${result} />`
            : html`<${Result} key="${run.number}/${chosen}" tab=${tab} run=${run} result=${result} />`
      }
    </div></div>`;
}
