// SPDX-License-Identifier: Apache-2.0
// The border between editor and results, which can be moved by pointer and by arrows.

import { useState } from '../vendor/libraries.js';
import { html } from '../html.js';
import { load, save } from '../storage.js';

const SHARE_MIN = 15;
const SHARE_MAX = 80;

/** The editor's share of the height, in percent, and how to change it. */
export function useShare() {
  const [share, setShare] = useState(() => load('editorShare', 38));
  return [
    share,
    next => {
      const kept = Math.round(Math.max(SHARE_MIN, Math.min(SHARE_MAX, next)));
      setShare(kept);
      save('editorShare', kept);
    },
  ];
}

export function Splitter({ share, onShare }) {
  const down = event => {
    event.preventDefault();
    const border = event.currentTarget;
    const { top, height } = border.parentElement.getBoundingClientRect();
    border.setPointerCapture(event.pointerId);
    border.onpointermove = move => onShare(((move.clientY - top) / height) * 100);
    border.onpointerup = () => {
      border.onpointermove = null;
    };
  };
  const keydown = event => {
    const step = { ArrowUp: -4, ArrowDown: 4 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    onShare(share + step);
  };
  return html`<div class="splitter" role="separator" aria-orientation="horizontal" aria-label="Height of the editor"
    tabindex="0" aria-valuenow=${share} aria-valuemin=${SHARE_MIN} aria-valuemax=${SHARE_MAX}
    onPointerDown=${down} onKeyDown=${keydown}></div>`;
}
