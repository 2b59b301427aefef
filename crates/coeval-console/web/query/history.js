// SPDX-License-Identifier: Apache-2.0
// What was run lately. Values of parameters are not in it.

import { signal, useMemo, useState } from '../vendor/libraries.js';
import { html } from '../html.js';
import { session } from '../server.js';
import { load, save } from '../storage.js';
import { milliseconds } from '../figures.js';
import { Dialog } from '../dialog.js';

const ENTRIES_MAX = 200;
/** Longer texts are not kept: there is not much room. */
const TEXT_MAX = 20_000;

export const isHistoryOpen = signal(false);

function place() {
  return `history.${session.value?.user}@${session.value?.database}`;
}

export function remember({ sql, error, milliseconds: time }) {
  if (!session.value || sql.length > TEXT_MAX) return;
  const entry = { sql, error, time, at: Date.now() };
  const others = load(place(), []).filter(other => other.sql !== sql);
  // Where there is no room for all, the older half goes.
  let entries = [entry, ...others].slice(0, ENTRIES_MAX);
  while (!save(place(), entries) && entries.length > 1) entries = entries.slice(0, entries.length / 2);
}

export function History({ onChoose }) {
  const [words, setWords] = useState('');
  const [entries, setEntries] = useState(() => load(place(), []));
  const found = useMemo(() => {
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    return entries.filter(({ sql }) => wanted.every(word => sql.toLowerCase().includes(word)));
  }, [entries, words]);
  const close = () => {
    isHistoryOpen.value = false;
  };
  const choose = sql => {
    close();
    onChoose(sql);
  };
  const forget = () => {
    save(place(), []);
    setEntries([]);
  };
  return html`<${Dialog} title="History" className="drawer" onClose=${close}>
    <div class="bar"><label class="grow"><span class="visually-hidden">Search the history</span>
      <input type="search" placeholder="Search" value=${words} onInput=${event => setWords(event.target.value)} />
        </label>
      <button type="button" onClick=${forget} disabled=${entries.length === 0}>Forget all</button></div>
    ${found.length === 0 && html`<p class="empty">
      ${entries.length === 0 ? 'Nothing has run yet.' : 'Nothing like it.'}</p>`}
    <ul class="history">${found.map(
      ({ sql, error, time, at }) => html`<li key=${at}>
      <button type="button" onClick=${() => choose(sql)} title="Put into the editor">
        <code>${sql.trim().slice(0, 400)}</code>
        <small><time datetime=${new Date(at).toISOString()}>${new Date(at).toLocaleString('en-GB')}</time>
          ${' · '}${milliseconds(time)}${error && html` · <span class="bad">failed</span>`}</small>
      </button></li>`,
    )}</ul></${Dialog}>`;
}
