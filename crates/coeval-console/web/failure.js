// SPDX-License-Identifier: Apache-2.0
// An error as the server tells it: its message, and below it what else it says.

import { html } from './html.js';

/** `insufficient_privilege`: what a role may not see is said calmly. */
const NOT_ALLOWED = '42501';

export function Failure({ error, children }) {
  if (!error) return null;
  if (error.sqlstate === NOT_ALLOWED || error.status === 403) {
    return html`<p class="not-allowed" role="status">Not shown to this role: ${error.message}</p>`;
  }
  return html`<div class="failure" role="alert">
    <p>${error.message}${error.sqlstate && html` <code class="sqlstate">${error.sqlstate}</code>`}</p>
    ${error.detail && html`<p><b>Detail</b> ${error.detail}</p>`}
    ${error.hint && html`<p><b>Hint</b> ${error.hint}</p>`}
    ${children}
  </div>`;
}
