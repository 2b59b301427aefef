// SPDX-License-Identifier: Apache-2.0
// The values of $1, $2 and so on. They go to the server as texts; the statement says what types they are of.

import { html } from '../html.js';

/** One field for each parameter; `null` is NULL. */
export function Parameters({ tab }) {
  const values = tab.parameters.value;
  const set = (index, value) => {
    tab.parameters.value = values.with(index, value);
  };
  const add = () => {
    tab.parameters.value = [...values, ''];
  };
  const remove = () => {
    tab.parameters.value = values.slice(0, -1);
  };
  return html`<fieldset class="parameters"><legend class="visually-hidden">Parameters</legend>
    ${values.map(
      (value, index) => html`<span class="parameter" key=${index}>
      <label><span class="parameter-name">$${index + 1}</span>
        <input value=${value ?? ''} disabled=${value === null} placeholder=${value === null ? 'NULL' : ''}
          spellcheck=${false}
          onInput=${event => set(index, event.target.value)} /></label>
      <label class="check small"><input type="checkbox" checked=${value === null}
        onChange=${event => set(index, event.target.checked ? null : '')} /><span>NULL</span></label></span>`,
    )}
    <button type="button" onClick=${add}>Add $${values.length + 1}</button>
    ${values.length > 0 && html`<button type="button" onClick=${remove}>Remove $${values.length}</button>`}
    <small>With parameters a run is exactly one statement.</small></fieldset>`;
}
