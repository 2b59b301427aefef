// SPDX-License-Identifier: Apache-2.0
// What can be done with a tab's text, and how the tab's session is.

import { useEffect, useState } from '../vendor/libraries.js';
import { html } from '../html.js';
import { milliseconds } from '../figures.js';
import { COMMAND } from '../keys.js';
import { isHistoryOpen } from './history.js';
import { STATES, cancel, start } from './run.js';
import { FAILED, IDLE, IN_BLOCK } from './tabs.js';

/** Counts while something runs, and says afterwards how long it took. */
function Elapsed({ run }) {
  const [, tick] = useState(0);
  useEffect(() => {
    if (!run?.isRunning) return undefined;
    const timer = setInterval(() => tick(performance.now()), 100);
    return () => clearInterval(timer);
  }, [run?.isRunning]);
  if (!run) return html`<span class="elapsed"></span>`;
  const time = run.isRunning ? performance.now() - run.startedAt : run.milliseconds;
  return html`<span class="elapsed${run.isRunning ? ' running' : ''}">
    ${run.isRunning ? 'running ' : ''}${milliseconds(time)}</span>`;
}

function Transaction({ tab, isRunning }) {
  const state = tab.transaction.value;
  const end = sql => start(tab, sql, { isRemembered: false });
  return html`<span class="transaction" data-state=${state}>
    <span class="state" role="status">${STATES[state] ?? state}</span>
    ${state === IN_BLOCK && html`<button type="button" disabled=${isRunning}
      onClick=${() => end('COMMIT')}>Commit</button>`}
    ${state !== IDLE && html`<button type="button" disabled=${isRunning}
      onClick=${() => end('ROLLBACK')}>Rollback</button>`}
  </span>`;
}

export function Toolbar({ tab, commands }) {
  const run = tab.run.value;
  const isRunning = run?.isRunning ?? false;
  const parameterCount = tab.hasParameters.value ? tab.parameters.value.length : 0;
  return html`<div class="toolbar" role="group" aria-label="Run">
    ${
      isRunning
        ? html`<button type="button" class="run" key="cancel" onClick=${() => cancel(tab)}>
          ${run.isCanceled ? 'Stop waiting' : 'Cancel'}</button>`
        : html`<button type="button" class="run primary" key="run" title="${COMMAND}+Enter"
          onClick=${commands.run}>Run</button>`
    }
    <button type="button" disabled=${isRunning} title="How the statement at the cursor would run (${COMMAND}+Shift+Enter)"
      onClick=${commands.explain}>Explain</button>
    <button type="button" disabled=${isRunning} title="Runs the statement at the cursor, and says what each part took"
      onClick=${commands.analyze}>Analyze</button>
    <button type="button" aria-pressed=${tab.hasParameters.value}
      onClick=${() => {
        tab.hasParameters.value = !tab.hasParameters.value;
      }}>Parameters${parameterCount > 0 ? ` (${parameterCount})` : ''}</button>
    <button type="button" onClick=${() => {
      isHistoryOpen.value = true;
    }}>History</button>
    <span class="grow"></span>
    <${Elapsed} run=${run} />
    <${Transaction} tab=${tab} isRunning=${isRunning} />
  </div>`;
}
