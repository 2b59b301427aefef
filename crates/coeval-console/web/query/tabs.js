// SPDX-License-Identifier: Apache-2.0
// The editor's tabs. Each is a session of its own at the server, which begins with its first run.

import { effect, signal } from '../vendor/libraries.js';
import { closeTab, openTab, session, tabStanding } from '../server.js';
import { load, save } from '../storage.js';

/** The words between which a session's transaction goes back and forth; `ended`: the session is gone. */
export const IDLE = 'idle';
export const IN_BLOCK = 'block';
export const FAILED = 'failed';

class Tab {
  constructor({ key, name, text = '', parameters = [], hasParameters = false }) {
    this.key = key;
    this.name = signal(name);
    this.text = signal(text);
    this.parameters = signal(parameters);
    this.hasParameters = signal(hasParameters);
    /** The session's id at the server, once it has one. */
    this.id = null;
    this.transaction = signal(IDLE);
    /** Whether the editor is to have the focus when the tab comes in front. */
    this.takesFocus = false;
    /** Whether its transaction has changed definitions. */
    this.hasDefined = false;
    /** The last run, see `run.js`. */
    this.run = signal(null);
    /** What the editor was like when another tab came in front: cursor, undo. */
    this.editorState = null;
    /** The part of the text that an error is about, `{from, to}`. */
    this.marked = signal(null);
  }

  /** The session's id; opens one if there is none. */
  async session() {
    this.id ??= await openTab();
    return this.id;
  }

  /** The session is no more: the next run begins another. */
  forget() {
    this.id = null;
    this.transaction.value = IDLE;
  }

  kept() {
    return {
      key: this.key,
      name: this.name.value,
      text: this.text.value,
      parameters: this.parameters.value,
      hasParameters: this.hasParameters.value,
    };
  }
}

export const tabs = signal([]);
export const chosen = signal(null);

/** Whose tabs these are: another user's are not shown. */
let owner = null;

function place() {
  return `tabs.${owner}`;
}

// Parameters are kept in the tab, where they can be seen and emptied; the history has none.
let saving = null;
effect(() => {
  const kept = { tabs: tabs.value.map(tab => tab.kept()), chosen: chosen.value };
  if (owner === null || kept.tabs.length === 0) return;
  const where = place();
  clearTimeout(saving);
  saving = setTimeout(() => save(where, kept), 300);
});

effect(() => {
  const account = session.value;
  if (!account) {
    // The sessions have ended with the login.
    for (const tab of tabs.peek()) tab.forget();
    return;
  }
  const mine = `${account.user}@${account.database}`;
  if (mine === owner) return;
  owner = mine;
  const kept = load(place(), null);
  const found = (kept?.tabs ?? []).map(one => new Tab(one));
  tabs.value = found.length > 0 ? found : [new Tab({ key: '1', name: 'Query 1' })];
  chosen.value = tabs.value.some(({ key }) => key === kept?.chosen) ? kept.chosen : tabs.value[0].key;
});

const ASKED_EVERY_MS = 45_000;

/** Asks how the sessions are: those that nobody asks for end, once nothing runs there, and some were ended by others. */
function askForAll() {
  for (const tab of tabs.value) {
    const { id } = tab;
    if (id === null) continue;
    tabStanding(id).then(
      ({ transaction }) => {
        if (tab.id === id && transaction !== undefined && !tab.run.value?.isRunning) tab.transaction.value = transaction;
      },
      ({ status }) => {
        if (status === 404 && tab.id === id) tab.forget();
      },
    );
  }
}

setInterval(askForAll, ASKED_EVERY_MS);
addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'visible') askForAll();
});

/** Whether something would be lost with the session. */
export function isBusy(tab) {
  return (tab.run.value?.isRunning ?? false) || tab.transaction.value !== IDLE;
}

addEventListener('beforeunload', event => {
  if (tabs.value.some(isBusy)) event.preventDefault();
});

addEventListener('pagehide', () => {
  clearTimeout(saving);
  if (owner !== null) save(place(), { tabs: tabs.value.map(tab => tab.kept()), chosen: chosen.value });
  for (const tab of tabs.value) {
    if (tab.id !== null) closeTab(tab.id, { keepalive: true }).catch(() => {});
    tab.forget();
  }
});

export function chosenTab() {
  return tabs.value.find(({ key }) => key === chosen.value) ?? tabs.value[0];
}

let lastKey = 0;

export function addTab(text = '', name) {
  // A key is not given twice: what belongs to a closed tab does not come back in a new one.
  lastKey = Math.max(lastKey, ...tabs.value.map(({ key }) => Number(key))) + 1;
  const names = new Set(tabs.value.map(tab => tab.name.value));
  let number = 1;
  while (names.has(`Query ${number}`)) number += 1;
  const key = String(lastKey);
  const tab = new Tab({ key, name: name ?? `Query ${number}`, text });
  tab.takesFocus = true;
  tabs.value = [...tabs.value, tab];
  chosen.value = key;
  return tab;
}

/** Closes a tab and ends its session. There is always one tab. */
export function removeTab(key) {
  const index = tabs.value.findIndex(tab => tab.key === key);
  const tab = tabs.value[index];
  lastKey = Math.max(lastKey, Number(key));
  if (tab.id !== null) closeTab(tab.id).catch(() => {});
  tabs.value = tabs.value.filter(one => one !== tab);
  if (tabs.value.length === 0) addTab();
  else if (chosen.value === key) chosen.value = tabs.value[Math.min(index, tabs.value.length - 1)].key;
}
