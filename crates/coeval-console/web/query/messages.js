// SPDX-License-Identifier: Apache-2.0
// What a run has said: tags of its statements, notices, errors.

import { html } from '../html.js';

function Fields({ message }) {
  return html`${message.detail && html`<div><b>Detail</b> ${message.detail}</div>`}
    ${message.hint && html`<div><b>Hint</b> ${message.hint}</div>`}`;
}

function Message({ message, onPlace }) {
  if (message.kind === 'tag') {
    return html`<li><code>${message.tag}</code>
      ${message.truncated && html` <span class="warning">cut: not all of its rows are kept</span>`}</li>`;
  }
  if (message.kind === 'notice') {
    return html`<li class=${message.severity === 'WARNING' ? 'warning' : 'notice'}>
      <div><b>${message.severity}</b> ${message.message}</div><${Fields} message=${message} /></li>`;
  }
  const { place } = message;
  const state = message.sqlstate && html`<code class="sqlstate">${message.sqlstate}</code>`;
  return html`<li class="error"><div role="alert">
    <div><b>ERROR</b> ${message.message} ${state}</div>
    <${Fields} message=${message} />
    ${
      place &&
      html`<div>Line ${place.line}, column ${place.column}
      ${place.inText && html` <button type="button" class="link"
        onClick=${() => onPlace(place.inText)}>Go there</button>`}</div>`
    }</div></li>`;
}

export function Messages({ messages, onPlace }) {
  if (messages.length === 0) return html`<p class="empty">Nothing was said.</p>`;
  return html`<ul class="messages">${messages.map(
    (message, index) => html`
    <${Message} key=${index} message=${message} onPlace=${onPlace} />`,
  )}</ul>`;
}
