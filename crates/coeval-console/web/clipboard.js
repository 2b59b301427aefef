// SPDX-License-Identifier: Apache-2.0
// Copies text. Browsers give their clipboard to pages of this machine and to those behind TLS; others use the old way.

import { announce } from './announce.js';

export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    copyThroughSelection(text);
  }
  announce(`${what} copied.`);
}

function copyThroughSelection(text) {
  const before = document.activeElement;
  const field = document.createElement('textarea');
  field.value = text;
  field.className = 'visually-hidden';
  document.body.append(field);
  field.select();
  document.execCommand('copy');
  field.remove();
  before?.focus?.();
}
