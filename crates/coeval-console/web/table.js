// SPDX-License-Identifier: Apache-2.0
// A small table, which scrolls sideways by itself where the window is narrow.

import { html } from './html.js';

/** `columns`: `{key, label, number, cell}`; `cell` makes what is shown of a row, otherwise it is the row's text. */
export function Table({ label, columns, rows, keyOf, empty = 'None.', className = '' }) {
  if (rows.length === 0) return html`<p class="empty">${empty}</p>`;
  return html`<div class="table-scroll ${className}" tabindex="0" role="group" aria-label=${label}>
    <table aria-label=${label}>
    <thead><tr>${columns.map(({ key, label: head, number }) => html`<th scope="col" key=${key}
      class=${number ? 'number' : ''}>${head}</th>`)}</tr></thead>
    <tbody>${rows.map(
      (row, index) => html`<tr key=${keyOf ? keyOf(row) : index}>
      ${columns.map(
        ({ key, number, cell, wide }) => html`<td key=${key} class="${number ? 'number' : ''}${wide ? ' wide' : ''}">
        ${cell ? cell(row) : (row[key] ?? '')}</td>`,
      )}</tr>`,
    )}</tbody></table></div>`;
}
