// SPDX-License-Identifier: Apache-2.0
// Dialogs: the browser's own, which keeps the focus inside, gives it back, and closes on Escape.

import { signal, useEffect, useRef } from './vendor/libraries.js';
import { html } from './html.js';

export function Dialog({ title, onClose, className = '', children }) {
  const element = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    element.current.showModal();
    return () => before?.focus?.();
  }, []);
  const clickBehind = event => {
    if (event.target === element.current) onClose();
  };
  return html`<dialog ref=${element} class=${className} aria-labelledby="dialog-title" onClick=${clickBehind}
      onCancel=${event => {
        event.preventDefault();
        onClose();
      }}>
    <div class="dialog-body">
      <header><h2 id="dialog-title">${title}</h2>
        <button type="button" class="quiet" aria-label="Close" onClick=${onClose}>×</button></header>
      ${children}
    </div></dialog>`;
}

const question = signal(null);

/** Asks before something that cannot be taken back. */
export function confirm({ title, text, action }) {
  return new Promise(resolve => {
    question.value = { title, text, action, resolve };
  });
}

export function Confirmation() {
  if (!question.value) return null;
  const { title, text, action, resolve } = question.value;
  const answer = yes => {
    question.value = null;
    resolve(yes);
  };
  return html`<${Dialog} title=${title} onClose=${() => answer(false)}>
    <p class="confirm-text">${text}</p>
    <div class="actions">
      <button type="button" autofocus onClick=${() => answer(false)}>Keep as it is</button>
      <button type="button" class="danger" onClick=${() => answer(true)}>${action}</button>
    </div></${Dialog}>`;
}
