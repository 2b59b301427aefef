// SPDX-License-Identifier: Apache-2.0
// One cell with all of its text, beside the grid.

import { html } from '../html.js';
import { copy } from '../clipboard.js';
import { count } from '../figures.js';

/** Rows as other programs take them from the clipboard: fields apart by tabs, NULL as nothing. */
function rowText(row) {
  return row.map(value => (value ?? '').replaceAll(/[\t\r\n]/g, ' ')).join('\t');
}

function pretty(value, type) {
  if (type !== 'json' && type !== 'jsonb') return value;
  try {
    const document = JSON.parse(value);
    // Numbers that this language cannot hold would be written as others.
    return /\d{16}/.test(value) ? value : JSON.stringify(document, null, 2);
  } catch {
    return value;
  }
}

export function ValuePane({ column, rowNumber, row, value, onClose }) {
  return html`<aside class="value-pane" aria-label="Value" onKeyDown=${event => {
    if (event.key === 'Escape') onClose();
  }}>
    <header><div><b>${column.name}</b> <span class="type">${column.type}</span>
      <small>row ${count(rowNumber)}${value !== null && ` · ${count(value.length)} characters`}</small></div>
      <button type="button" class="quiet" aria-label="Close the value" onClick=${onClose}>×</button></header>
    <pre tabindex="0">${value === null ? html`<span class="null">NULL</span>` : pretty(value, column.type)}</pre>
    <div class="bar"><button type="button" onClick=${() => copy(value ?? '', 'Cell')}>Copy cell</button>
      <button type="button" onClick=${() => copy(rowText(row), 'Row')}>Copy row</button></div></aside>`;
}
