// SPDX-License-Identifier: Apache-2.0
// The part where statements are written and run.

import { useEffect, useRef, useState } from '../vendor/libraries.js';
import { html } from '../html.js';
import { Dialog, confirm } from '../dialog.js';
import { TabList } from '../tab_list.js';
import { Editor, goTo, selected, statementAtCursor } from './editor.js';
import { History, isHistoryOpen } from './history.js';
import { Parameters } from './parameters.js';
import { Results } from './results.js';
import { start } from './run.js';
import { Splitter, useShare } from './splitter.js';
import { IDLE, addTab, chosen, chosenTab, isBusy, removeTab, tabs } from './tabs.js';
import { Toolbar } from './toolbar.js';

const READS = /^\s*(?:--[^\n]*\n\s*|\/\*.*?\*\/\s*)*(?:SELECT|VALUES|TABLE)\b/is;

function parametersOf(tab) {
  return tab.hasParameters.value ? tab.parameters.value : [];
}

function run(tab, view) {
  const { sql, offset } = selected(view);
  start(tab, sql, { offset, parameters: parametersOf(tab) });
}

async function explain(tab, view, { analyze }) {
  const { sql, offset } = statementAtCursor(view);
  if (sql.trim() === '') return;
  if (analyze && !READS.test(sql)) {
    const text =
      'To measure it, the statement runs. What it changes stays changed, unless a transaction is rolled back around it.';
    if (!(await confirm({ title: 'Run the statement?', text, action: 'Run it' }))) return;
  }
  const prefix = analyze ? 'EXPLAIN (ANALYZE, FORMAT JSON) ' : 'EXPLAIN (FORMAT JSON) ';
  start(tab, prefix + sql, {
    offset: offset - prefix.length,
    parameters: parametersOf(tab),
    kind: 'plan',
    prefix: prefix.length,
    isRemembered: false,
  });
}

function Rename({ tab, onClose }) {
  const submit = event => {
    event.preventDefault();
    const name = event.target.elements.name.value.trim();
    if (name !== '') tab.name.value = name;
    onClose();
  };
  return html`<${Dialog} title="Name of the tab" onClose=${onClose}><form onSubmit=${submit}>
    <label>Name <input name="name" autofocus maxlength="60" defaultValue=${tab.name.value} /></label>
    <div class="actions"><button type="button" onClick=${onClose}>Cancel</button>
      <button type="submit" class="primary">Rename</button></div></form></${Dialog}>`;
}

async function close(key) {
  const tab = tabs.value.find(one => one.key === key);
  if (isBusy(tab)) {
    const text = 'Its statement is cancelled, and its transaction is rolled back.';
    if (!(await confirm({ title: `Close ${tab.name.value}?`, text, action: 'Close' }))) return;
  }
  tab.run.value?.abort.abort();
  removeTab(key);
}

export function QueryPage({ hidden }) {
  const view = useRef(null);
  const [share, setShare] = useShare();
  const [renamed, setRenamed] = useState(null);
  const tab = chosenTab();
  const actions = {
    run: () => run(tab, view.current),
    explain: () => explain(tab, view.current, { analyze: false }),
    analyze: () => explain(tab, view.current, { analyze: true }),
  };
  // The editor's keys outlive this call: they look here for what to do.
  const commands = useRef(actions);
  commands.current = actions;
  useEffect(() => {
    if (!hidden) view.current?.requestMeasure();
  }, [hidden]);
  if (!tab) return null;
  const list = tabs.value.map(({ key, name, transaction, run: { value: last } }) => ({
    key,
    label: name.value,
    title: `${name.value} (F2 renames)`,
    mark: last?.isRunning ? 'running' : transaction.value === IDLE ? undefined : 'open',
  }));
  const take = sql => {
    if (tab.text.value.trim() === '')
      view.current.dispatch({ changes: { from: 0, to: view.current.state.doc.length, insert: sql } });
    else addTab(sql);
  };
  return html`<section class="query" hidden=${hidden} aria-label="Query">
    <h1 class="visually-hidden">Query</h1>
    <div class="query-tabs">
      <${TabList} label="Editors" tabs=${list} chosen=${tab.key} panel="editor-panel"
        onChoose=${key => {
          chosen.value = key;
        }} onClose=${close} onRename=${setRenamed} />
      <button type="button" class="quiet" aria-label="New tab" title="New tab" onClick=${() => addTab()}>+</button>
        </div>
    <div class="query-panel" role="tabpanel" id="editor-panel" aria-labelledby="editor-panel-tab-${tab.key}">
      <div class="editor-part" style=${{ flexBasis: `${share}%` }}>
        <${Toolbar} tab=${tab} commands=${actions} />
        ${tab.hasParameters.value && html`<${Parameters} tab=${tab} />`}
        <${Editor} key=${tab.key} tab=${tab} view=${view} commands=${commands} /></div>
      <${Splitter} share=${share} onShare=${setShare} />
      <div class="results-part"><${Results} tab=${tab} onPlace=${place => goTo(view.current, place)} /></div>
    </div>
    ${isHistoryOpen.value && html`<${History} onChoose=${take} />`}
    ${renamed && html`<${Rename} tab=${tabs.value.find(({ key }) => key === renamed)}
      onClose=${() => setRenamed(null)} />`}
  </section>`;
}
