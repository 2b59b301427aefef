// SPDX-License-Identifier: Apache-2.0
// The editor of a tab.

import {
  Decoration,
  EditorSelection,
  EditorState,
  EditorView,
  HighlightStyle,
  PostgreSQL,
  Prec,
  StateEffect,
  StateField,
  acceptCompletion,
  autocompletion,
  bracketMatching,
  closeBrackets,
  closeBracketsKeymap,
  closeCompletion,
  completionKeymap,
  defaultKeymap,
  drawSelection,
  dropCursor,
  effect,
  highlightActiveLine,
  highlightActiveLineGutter,
  highlightSelectionMatches,
  highlightSpecialChars,
  history,
  historyKeymap,
  indentOnInput,
  keymap,
  lineNumbers,
  placeholder,
  rectangularSelection,
  schemaCompletionSource,
  search,
  searchKeymap,
  sql,
  syntaxHighlighting,
  syntaxTree,
  tags,
  useEffect,
  useRef,
} from '../vendor/libraries.js';
import { html } from '../html.js';
import { fetchNames, names } from './names.js';

const setMark = StateEffect.define();

/** The place of an error: moves with the text around it, and goes when what it marks is changed. */
const mark = StateField.define({
  create: () => Decoration.none,
  update(marks, transaction) {
    let next = marks.map(transaction.changes);
    for (const change of transaction.effects) {
      if (!change.is(setMark)) continue;
      const length = transaction.state.doc.length;
      const { from, to } = change.value ?? {};
      next =
        change.value && from < length
          ? Decoration.set(
              Decoration.mark({ class: 'cm-error-place' }).range(from, Math.min(Math.max(to, from + 1), length)),
            )
          : Decoration.none;
    }
    return next;
  },
  provide: field => EditorView.decorations.from(field),
});

// The colours are custom properties, so that light and dark need no other editor.
const colours = HighlightStyle.define([
  { tag: tags.keyword, color: 'var(--syntax-keyword)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--syntax-string)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--syntax-number)' },
  { tag: [tags.lineComment, tags.blockComment], color: 'var(--muted)', fontStyle: 'italic' },
  { tag: tags.typeName, color: 'var(--syntax-type)' },
]);

let named = { names: null, source: null };

/** Tables and columns. Whoever asks before the names have come gets them then. */
async function complete(context) {
  await fetchNames();
  if (context.aborted) return null;
  if (named.names !== names.value) {
    const source = schemaCompletionSource({ dialect: PostgreSQL, schema: names.value, defaultSchema: 'public' });
    named = { names: names.value, source };
  }
  return named.source(context);
}

const LANGUAGE = [
  sql({ dialect: PostgreSQL, upperCaseKeywords: true }),
  PostgreSQL.language.data.of({ autocomplete: complete }),
];

/** The browser refuses styles that do not carry the server's word of the day. */
const nonce = document.querySelector('meta[name=csp-nonce]')?.content ?? '';

const LOOK = EditorView.theme({
  '&': { height: '100%', color: 'var(--text)', backgroundColor: 'var(--surface)' },
  '.cm-scroller': { fontFamily: 'var(--mono)', fontSize: '13px', lineHeight: '1.5' },
  '.cm-content': { caretColor: 'var(--text)', paddingBlock: '6px' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': { backgroundColor: 'var(--surface)', color: 'var(--muted)', border: 'none' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'var(--row-hover)' },
  '&.cm-focused .cm-selectionBackground, .cm-selectionBackground, ::selection': {
    backgroundColor: 'var(--selected) !important',
  },
  '.cm-selectionMatch': { backgroundColor: 'var(--row-hover)' },
  '&.cm-focused .cm-matchingBracket': { backgroundColor: 'transparent', outline: '1px solid var(--muted)' },
  '.cm-placeholder': { color: 'var(--muted)' },
  '.cm-tooltip': {
    backgroundColor: 'var(--background)',
    border: '1px solid var(--border-strong)',
    color: 'var(--text)',
  },
  '.cm-tooltip-autocomplete > ul > li[aria-selected]': {
    backgroundColor: 'var(--accent)',
    color: 'var(--on-accent)',
  },
  '.cm-completionIcon': { display: 'none' },
  '.cm-panels': { backgroundColor: 'var(--background)', color: 'var(--text)' },
  '.cm-panels.cm-panels-top': { borderBottom: '1px solid var(--border)' },
});

/**
 * What is typed over a selection. Left to itself the browser would keep the look of what was there, by a style attribute
 * that the page's policy forbids.
 */
const typedOverSelection = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { from, to, empty } = view.state.selection.main;
    if (event.inputType !== 'insertText' || event.data === null || empty || view.composing) return false;
    const insert = () =>
      view.state.update(view.state.replaceSelection(event.data), { userEvent: 'input.type', scrollIntoView: true });
    const handlers = view.state.facet(EditorView.inputHandler);
    if (!handlers.some(handler => handler(view, from, to, event.data, insert))) view.dispatch(insert());
    event.preventDefault();
    return true;
  },
});

function extensions(tab, commands) {
  const run = key => view => {
    closeCompletion(view);
    commands.current[key]();
    return true;
  };
  return [
    EditorView.cspNonce.of(nonce),
    lineNumbers(),
    highlightActiveLineGutter(),
    highlightSpecialChars(),
    history(),
    drawSelection(),
    dropCursor(),
    EditorState.allowMultipleSelections.of(true),
    indentOnInput(),
    bracketMatching(),
    closeBrackets(),
    autocompletion(),
    rectangularSelection(),
    highlightActiveLine(),
    highlightSelectionMatches(),
    search({ top: true }),
    syntaxHighlighting(colours),
    LOOK,
    mark,
    typedOverSelection,
    EditorView.lineWrapping,
    LANGUAGE,
    placeholder('SELECT ...'),
    EditorView.contentAttributes.of({ 'aria-label': 'SQL', spellcheck: 'false' }),
    Prec.highest(
      keymap.of([
        { key: 'Mod-Enter', run: run('run') },
        { key: 'Mod-Shift-Enter', run: run('explain') },
      ]),
    ),
    // Tab takes what is offered; otherwise it leaves the editor, as it leaves any field.
    keymap.of([
      { key: 'Tab', run: acceptCompletion },
      ...closeBracketsKeymap,
      ...defaultKeymap,
      ...searchKeymap,
      ...historyKeymap,
      ...completionKeymap,
    ]),
    EditorView.updateListener.of(update => {
      if (update.docChanged) tab.text.value = update.state.doc.toString();
    }),
  ];
}

/** What a run takes: the selection, or all. */
export function selected(view) {
  const { from, to } = view.state.selection.main;
  return from < to
    ? { sql: view.state.sliceDoc(from, to), offset: from }
    : { sql: view.state.doc.toString(), offset: 0 };
}

/** The selection, or the one statement in which the cursor is, or after which it stands. */
export function statementAtCursor(view) {
  const { from, to, head } = view.state.selection.main;
  if (from < to) return { sql: view.state.sliceDoc(from, to), offset: from };
  let found = null;
  for (let node = syntaxTree(view.state).topNode.firstChild; node; node = node.nextSibling) {
    if (node.name !== 'Statement' || (found && node.from > head)) continue;
    found = node;
  }
  if (!found) return selected(view);
  return { sql: view.state.sliceDoc(found.from, found.to).replace(/;\s*$/, ''), offset: found.from };
}

/** Puts the cursor where an error is. */
export function goTo(view, { from }) {
  view.dispatch({ selection: EditorSelection.cursor(Math.min(from, view.state.doc.length)), scrollIntoView: true });
  view.focus();
}

/** `view` is a reference in which the page finds the editor; `commands` one to what its keys do. */
export function Editor({ tab, view, commands }) {
  const parent = useRef(null);
  useEffect(() => {
    // A text that was put into the tab from elsewhere counts more than what the editor last had.
    const isSame = tab.editorState?.doc.toString() === tab.text.peek();
    const state = isSame
      ? tab.editorState
      : EditorState.create({ doc: tab.text.peek(), extensions: extensions(tab, commands) });
    const editor = new EditorView({ state, parent: parent.current });
    view.current = editor;
    const stop = effect(() => {
      const marked = tab.marked.value;
      // The selection stays: it is what is run again.
      const place = marked && Math.min(marked.from, editor.state.doc.length);
      const scroll = marked ? [EditorView.scrollIntoView(place, { y: 'nearest', yMargin: 40 })] : [];
      editor.dispatch({ effects: [setMark.of(marked), ...scroll] });
    });
    fetchNames();
    if (tab.takesFocus) editor.focus();
    tab.takesFocus = false;
    return () => {
      stop();
      tab.editorState = editor.state;
      editor.destroy();
    };
  }, []);
  return html`<div class="editor" ref=${parent}></div>`;
}
