// SPDX-License-Identifier: Apache-2.0
// A row of tabs. One of them can be reached by Tab, the arrows go from one to the next, Delete closes.

import { useRef } from './vendor/libraries.js';
import { html } from './html.js';

/**
 * `tabs`: `{key, label, title}`, `chosen`: the key of one, `panel`: the id of what they show.
 * `onClose` and `onRename` are left out where tabs cannot be closed or renamed.
 */
export function TabList({ label, tabs, chosen, panel, onChoose, onClose, onRename, className = '' }) {
  const list = useRef(null);
  const choose = index => {
    onChoose(tabs[index].key);
    list.current.querySelectorAll('[role=tab]')[index].focus();
  };
  /** The focus goes on to the tab that is in front then. */
  const closeByKey = async key => {
    await onClose(key);
    requestAnimationFrame(() => list.current?.querySelector('[aria-selected=true]')?.focus());
  };
  const keydown = event => {
    // The tab that has the focus, be it chosen or not.
    const index = [...list.current.children].indexOf(event.target.closest('[role=tab]'));
    if (index < 0) return;
    const last = tabs.length - 1;
    if (event.key === 'ArrowRight') choose(index === last ? 0 : index + 1);
    else if (event.key === 'ArrowLeft') choose(index === 0 ? last : index - 1);
    else if (event.key === 'Home') choose(0);
    else if (event.key === 'End') choose(last);
    else if (event.key === 'Delete' && onClose) closeByKey(tabs[index].key);
    else if (event.key === 'F2' && onRename) onRename(tabs[index].key);
    else return;
    event.preventDefault();
  };
  const close = (event, key) => {
    event.stopPropagation();
    onClose(key);
  };
  return html`<div class="tab-list ${className}" role="tablist" aria-label=${label} ref=${list} onKeyDown=${keydown}>
    ${tabs.map(
      ({ key, label: text, title, mark }) => html`
      <button type="button" role="tab" key=${key} id="${panel}-tab-${key}" aria-selected=${key === chosen}
          aria-controls=${panel} tabindex=${key === chosen ? 0 : -1} title=${title} data-mark=${mark}
          onClick=${() => onChoose(key)} onDblClick=${onRename && (() => onRename(key))}
          onAuxClick=${event => {
            if (event.button === 1 && onClose) close(event, key);
          }}>
        <span class="tab-label">${text}</span>
        ${
          onClose &&
          html`<span class="tab-close" aria-hidden="true" title="Close (Delete)"
          onClick=${event => close(event, key)}>×</span>`
        }
      </button>`,
    )}
  </div>`;
}
