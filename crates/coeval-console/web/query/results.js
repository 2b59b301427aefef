// SPDX-License-Identifier: Apache-2.0
// What a run gave: each result with rows under a tab of its own, and the messages of all.

import { useEffect, useState } from '../vendor/libraries.js';
import { html } from '../html.js';
import { download, downloadCopy } from '../server.js';
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

const FORMATS = { csv: 'CSV', json: 'JSON', arrow: 'Arrow', parquet: 'Parquet' };

/** Why a result cannot be asked for again, as Arrow and Parquet are; nothing if it can. */
function unrepeatable({ messages, results, hasParameters }) {
  if (results.length > 1 || messages.filter(({ kind }) => kind === 'tag').length > 1)
    return 'Arrow and Parquet ask the query again: select it, and run it alone.';
  return hasParameters ? 'Arrow and Parquet ask the query again, without parameters: write the values into it.' : null;
}

/** Who has what is not kept can still have all of it. */
function cutText({ end }) {
  const which = end.value === null ? 'not all' : `only the first ${count(end.value)}`;
  return `cut: ${which} rows are kept. Ask for fewer, or save all as Arrow or Parquet.`;
}

function Save({ tab, run, result, onFailure }) {
  const reason = unrepeatable(run);
  const save = format => {
    const done =
      format === 'csv' || format === 'json'
        ? download(tab.id, result.number, format)
        : downloadCopy(tab.id, run.sql, format);
    done.then(() => onFailure(null), onFailure);
  };
  return html`<span class="save">Save as ${Object.entries(FORMATS).map(([format, label]) => {
    const why = format === 'arrow' || format === 'parquet' ? reason : null;
    return html`<button type="button" disabled=${why !== null} title=${why ?? undefined}
      onClick=${() => save(format)}>${label}</button>${' '}`;
  })}</span>`;
}

function Result({ tab, run, result }) {
  const [view, setView] = useState('table');
  const [notSaved, setNotSaved] = useState(null);
  const { error } = result.rows;
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
      <span class="grow">${result.truncated && html`<span class="warning">${cutText(result.rows)}</span>`}
        ${error.value && html`<span class="bad">${error.value.message}</span>`}
        ${notSaved && html`<span class="bad" role="alert">${notSaved.message} ${notSaved.hint ?? ''}</span>`}</span>
      ${result.isDone && tab.id !== null && html`<${Save} tab=${tab} run=${run} result=${result} onFailure=${setNotSaved} />`}
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
