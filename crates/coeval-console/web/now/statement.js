// SPDX-License-Identifier: Apache-2.0
// The text of a statement in a table: one line of it, and all of it on demand.

import { html } from '../html.js';

const HIDDEN = '<insufficient privilege>';
const SHOWN_MAX = 160;

export function Statement({ text }) {
  if (text === null || text === undefined || text === '') return html`<span class="muted">–</span>`;
  if (text === HIDDEN) return html`<span class="muted">not shown to this role</span>`;
  const line = text.replace(/\s+/g, ' ').trim();
  if (line.length <= SHOWN_MAX) return html`<code class="one-statement">${line}</code>`;
  return html`<details class="statement"><summary><code>${line.slice(0, SHOWN_MAX)}…</code></summary><pre>${text}
    </pre></details>`;
}
