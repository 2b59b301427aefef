// SPDX-License-Identifier: Apache-2.0
// The page: who is logged in, and which of the three parts is shown. The address behind # says which.

import { render, signal, useEffect } from './vendor/libraries.js';
import { html } from './html.js';
import { logOut, resume, session } from './server.js';
import { Announcer, announce } from './announce.js';
import { Confirmation, confirm } from './dialog.js';
import { DataPage } from './data/page.js';
import { Failure } from './failure.js';
import { NowPage } from './now/page.js';
import { QueryPage } from './query/page.js';
import { isBusy, tabs } from './query/tabs.js';
import { SignIn } from './sign_in.js';
import { ThemeSwitch } from './theme.js';

const PARTS = [
  ['query', 'Query'],
  ['now', 'Now'],
  ['data', 'Data'],
];

const place = signal(placeOf(location.hash));
const failure = signal(null);

addEventListener('hashchange', () => {
  place.value = placeOf(location.hash);
});

/** `#data/sales/orders`: the part, and the names behind it. */
function placeOf(hash) {
  const [part, ...names] = hash.slice(1).split('/').map(decodeURIComponent);
  return PARTS.some(([known]) => known === part) ? { part, names } : { part: 'query', names: [] };
}

function Header({ part }) {
  const { user, database, readOnly, version } = session.value;
  const leave = async () => {
    const text = 'Statements that run are cancelled, and open transactions are rolled back.';
    if (tabs.value.some(isBusy) && !(await confirm({ title: 'Log out?', text, action: 'Log out' }))) return;
    logOut().catch(error => announce(error.message));
  };
  return html`<header class="top">
    <span class="brand" title=${`Coeval ${version}`}>Coeval</span>
    <nav aria-label="Parts">${PARTS.map(
      ([key, label]) => html`
      <a href="#${key}" aria-current=${key === part ? 'page' : undefined}>${label}</a>`,
    )}</nav>
    <span class="who" title=${`Coeval ${version}`}>${user}<span class="at">@${database}</span>
      ${readOnly && html`<span class="badge">read only</span>`}</span>
    <${ThemeSwitch} />
    <button type="button" class="quiet" onClick=${leave}>Log out</button>
  </header>`;
}

function App() {
  useEffect(() => {
    resume().catch(error => {
      failure.value = error;
    });
  }, []);
  const { part, names } = place.value;
  useEffect(() => {
    document.title = `${PARTS.find(([key]) => key === part)[1]} · Coeval console`;
  }, [part]);
  if (session.value === undefined) {
    return html`<main class="sign-in"><${Failure} error=${failure.value} /></main>`;
  }
  if (session.value === null) return html`<${SignIn} /><${Announcer} />`;
  const skip = event => {
    event.preventDefault();
    document.getElementById('main').focus();
  };
  return html`<a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
    <${Header} part=${part} />
    <main id="main" tabindex="-1">
      ${/* What runs goes on running, and its results stay, while another part is looked at. */ ''}
      <${QueryPage} hidden=${part !== 'query'} />
      ${part === 'now' && html`<${NowPage} />`}
      ${part === 'data' && html`<${DataPage} names=${names} />`}
    </main>
    <${Announcer} /><${Confirmation} />`;
}

render(html`<${App} />`, document.getElementById('app'));
