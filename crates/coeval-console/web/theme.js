// SPDX-License-Identifier: Apache-2.0
// Light and dark: as the system has it, or as it was chosen here.

import { effect, signal } from './vendor/libraries.js';
import { html } from './html.js';
import { load, save } from './storage.js';

const CHOICES = [
  ['system', 'System'],
  ['light', 'Light'],
  ['dark', 'Dark'],
];

const choice = signal(load('theme', 'system'));
const system = matchMedia('(prefers-color-scheme: dark)');
const systemIsDark = signal(system.matches);
system.addEventListener('change', () => {
  systemIsDark.value = system.matches;
});

/** `light` or `dark`: what draws on a canvas has to be drawn again when it changes. */
export const theme = signal('light');

effect(() => {
  const chosen = choice.value === 'system' ? (systemIsDark.value ? 'dark' : 'light') : choice.value;
  document.documentElement.dataset.theme = chosen;
  theme.value = chosen;
});

/** The colour that a custom property stands for now, as canvases take it. */
export function colour(property) {
  const probe = document.createElement('i');
  probe.style.color = `var(${property})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

export function ThemeSwitch() {
  const choose = event => {
    choice.value = event.target.value;
    save('theme', choice.value);
  };
  return html`<label class="theme"><span class="visually-hidden">Colours</span>
    <select value=${choice.value} onChange=${choose}>
      ${CHOICES.map(([value, label]) => html`<option value=${value}>${label}</option>`)}
    </select></label>`;
}
