// SPDX-License-Identifier: Apache-2.0
// One place on the page that screen readers read aloud when it changes.

import { signal } from './vendor/libraries.js';
import { html } from './html.js';

const said = signal('');

export function announce(text) {
  said.value = text;
}

export function Announcer() {
  return html`<div class="visually-hidden" role="status" aria-live="polite">${said.value}</div>`;
}
