// SPDX-License-Identifier: Apache-2.0
// What the console takes from its libraries. `build` makes `libraries.js` out of this.

export { h, render } from 'preact';
export { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
export { effect, signal } from '@preact/signals';
export { default as htm } from 'htm';

export { EditorSelection, EditorState, Prec, StateEffect, StateField } from '@codemirror/state';
export {
  Decoration,
  EditorView,
  drawSelection,
  dropCursor,
  highlightActiveLine,
  highlightActiveLineGutter,
  highlightSpecialChars,
  keymap,
  lineNumbers,
  placeholder,
  rectangularSelection,
} from '@codemirror/view';
export { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
export { HighlightStyle, bracketMatching, indentOnInput, syntaxHighlighting, syntaxTree } from '@codemirror/language';
export {
  acceptCompletion,
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  closeCompletion,
  completionKeymap,
} from '@codemirror/autocomplete';
export { highlightSelectionMatches, search, searchKeymap } from '@codemirror/search';
export { PostgreSQL, schemaCompletionSource, sql } from '@codemirror/lang-sql';
export { tags } from '@lezer/highlight';

export { default as UPlot } from 'uplot';
