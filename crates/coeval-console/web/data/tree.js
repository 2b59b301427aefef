// SPDX-License-Identifier: Apache-2.0
// Schemas and their tables as a tree. One line can be reached by Tab, the arrows go on from there.

import { useMemo, useRef, useState } from '../vendor/libraries.js';
import { html } from '../html.js';
import { KINDS } from './catalog.js';
import { SYSTEM_TABLES } from './system_tables.js';

const SYSTEM_SCHEMAS = new Set(['pg_catalog', 'information_schema']);
/** Coeval's own tables have no schema: they stand under this heading. */
export const SYSTEM = 'system tables';

function grouped(relations, words) {
  const groups = new Map();
  const add = (schema, relation) => {
    if (!groups.has(schema)) groups.set(schema, []);
    groups.get(schema).push(relation);
  };
  const fits = (schema, name) => words.every(word => name.includes(word) || schema.includes(word));
  for (const relation of relations) if (fits(relation.schema, relation.name)) add(relation.schema, relation);
  for (const { name } of SYSTEM_TABLES) if (fits(SYSTEM, name)) add(SYSTEM, { schema: null, name, kind: 'r' });
  const rank = schema => (SYSTEM_SCHEMAS.has(schema) ? 2 : schema === SYSTEM ? 1 : 0);
  return [...groups].sort(([a], [b]) => rank(a) - rank(b) || (a < b ? -1 : 1));
}

/** The address of a relation. */
export function addressOf({ schema, name }) {
  return `#data/${encodeURIComponent(schema ?? SYSTEM)}/${encodeURIComponent(name)}`;
}

export function Tree({ relations, chosen }) {
  const [search, setSearch] = useState('');
  const [open, setOpen] = useState({});
  const [active, setActive] = useState(null);
  const list = useRef(null);
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const groups = useMemo(() => grouped(relations, words), [relations, search]);
  const isOpen = schema =>
    words.length > 0 ? true : (open[schema] ?? (!SYSTEM_SCHEMAS.has(schema) && schema !== SYSTEM));
  const lines = groups.flatMap(([schema, tables]) => [
    { key: schema, schema, count: tables.length, level: 1 },
    ...(isOpen(schema)
      ? tables.map(relation => ({ key: `${schema}/${relation.name}`, schema, relation, level: 2 }))
      : []),
  ]);
  const isChosen = ({ schema, relation }) =>
    relation && chosen && schema === chosen[0] && relation.name === chosen[1];
  const reached = lines.find(({ key }) => key === active) ?? lines.find(isChosen) ?? lines[0];
  const go = index => {
    const line = lines[Math.max(0, Math.min(lines.length - 1, index))];
    setActive(line.key);
    list.current.querySelector(`[data-key="${CSS.escape(line.key)}"]`)?.focus();
  };
  const toggle = (schema, to) => setOpen({ ...open, [schema]: to ?? !isOpen(schema) });
  const choose = line => {
    setActive(line.key);
    if (line.relation) location.hash = addressOf(line.relation);
    else toggle(line.schema);
  };
  const keydown = event => {
    const index = lines.indexOf(reached);
    const { relation, schema } = reached;
    if (event.key === 'ArrowDown') go(index + 1);
    else if (event.key === 'ArrowUp') go(index - 1);
    else if (event.key === 'Home') go(0);
    else if (event.key === 'End') go(lines.length - 1);
    else if (event.key === 'Enter' || event.key === ' ') choose(reached);
    else if (event.key === 'ArrowRight' && !relation) {
      if (isOpen(schema)) go(index + 1);
      else toggle(schema, true);
    } else if (event.key === 'ArrowLeft') {
      if (relation) go(lines.findIndex(({ key }) => key === schema));
      else toggle(schema, false);
    } else return;
    event.preventDefault();
  };
  return html`<div class="tree-part">
    <label><span class="visually-hidden">Search tables</span>
      <input type="search" placeholder="Search tables" value=${search}
        onInput=${event => setSearch(event.target.value)} /></label>
    ${lines.length === 0 && html`<p class="empty">${words.length > 0 ? 'Nothing like it.' : 'No tables yet.'}</p>`}
    <ul class="tree" role="tree" aria-label="Schemas and tables" ref=${list} onKeyDown=${keydown}>
      ${lines.map(
        line => html`<li key=${line.key} role="treeitem" data-key=${line.key} aria-level=${line.level}
          tabindex=${line === reached ? 0 : -1}
          aria-expanded=${line.relation ? undefined : isOpen(line.schema)}
            aria-selected=${line.relation ? Boolean(isChosen(line)) : undefined}
          class="level-${line.level}" title=${line.relation ? line.relation.name : line.schema}
            onClick=${() => choose(line)}>
        <span class="name">${line.relation ? line.relation.name : line.schema}</span>
        ${
          line.relation
            ? KINDS[line.relation.kind] !== 'table' && html`<small>${KINDS[line.relation.kind]}</small>`
            : html`<small>${line.count}</small>`
        }</li>`,
      )}</ul></div>`;
}
