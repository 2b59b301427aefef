// SPDX-License-Identifier: Apache-2.0
// Some figures with their names.

import { html } from './html.js';

/** `facts`: pairs of a name and a value; those without a value are left out. `mark` is a class for a value. */
export function Facts({ facts }) {
  return html`<dl class="facts">${facts
    .filter(([, value]) => value !== null && value !== undefined && value !== '')
    .map(
      ([name, value, mark]) => html`<div key=${name}><dt>${name}</dt><dd class=${mark}>${value}</dd></div>`,
    )}</dl>`;
}

export function Panel({ title, note, children, className = '' }) {
  return html`<section class="panel ${className}" aria-label=${title}><header><h2>${title}</h2>${note && html`<small>
    ${note}</small>`}</header>
    ${children}</section>`;
}
