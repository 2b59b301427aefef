// SPDX-License-Identifier: Apache-2.0
// A table or view: its columns, indexes and constraints, its first rows, its definition, its bricks.

import { useEffect, useMemo, useState } from '../vendor/libraries.js';
import { html } from '../html.js';
import { askForTable } from '../server.js';
import { copy } from '../clipboard.js';
import { Facts } from '../facts.js';
import { Failure } from '../failure.js';
import { bytes, count } from '../figures.js';
import { Grid } from '../query/grid.js';
import { GivenRows } from '../query/result_rows.js';
import { addTab } from '../query/tabs.js';
import { TabList } from '../tab_list.js';
import { Table } from '../table.js';
import { Bricks } from './bricks.js';
import {
  KINDS,
  bricks,
  columns,
  constraints,
  dimensions,
  indexes,
  loads,
  qualified,
  quoted,
  referencedBy,
  sizes,
  viewText,
} from './catalog.js';
import { tableDefinition, viewDefinition } from './definition.js';
import { indexAdvice } from './index_advice.js';
import { addressOf } from './tree.js';

const ROWS = 200;
const CONSTRAINTS = { p: 'primary key', u: 'unique', c: 'check', f: 'foreign key', x: 'exclusion', t: 'trigger' };

/** Everything about a relation; what is refused is left out with the reason. */
async function describe(relation) {
  const isView = KINDS[relation.kind] === 'view';
  const part = question =>
    question.then(
      value => ({ value }),
      error => ({ error }),
    );
  const ownOrNone = question => (relation.oid === undefined ? part(Promise.resolve([])) : part(question()));
  const [size, brick, dimension, load, column, index, rule, child, view] = await Promise.all([
    relation.schema === null || isView ? part(Promise.resolve(null)) : part(sizes(relation)),
    relation.schema === null || isView ? part(Promise.resolve([])) : part(bricks(relation)),
    relation.schema === null || isView ? part(Promise.resolve([])) : part(dimensions(relation)),
    relation.schema === null || isView ? part(Promise.resolve([])) : part(loads(relation)),
    ownOrNone(() => columns(relation.oid)),
    ownOrNone(() => indexes(relation.oid)),
    ownOrNone(() => constraints(relation.oid)),
    ownOrNone(() => referencedBy(relation.oid)),
    isView && relation.oid !== undefined ? part(viewText(relation.oid)) : part(Promise.resolve('')),
  ]);
  return { size, brick, dimension, load, column, index, rule, child, view };
}

function useAnswer(question, keys) {
  const [answer, setAnswer] = useState({ value: null, error: null });
  useEffect(() => {
    let isWanted = true;
    setAnswer({ value: null, error: null });
    question().then(
      value => {
        if (isWanted) setAnswer({ value, error: null });
      },
      error => {
        if (isWanted) setAnswer({ value: null, error });
      },
    );
    return () => {
      isWanted = false;
    };
  }, keys);
  return answer;
}

function Columns({ relation, about }) {
  const keys = new Map();
  const rules = about.rule.value ?? [];
  for (const { kind, columns: numbers } of rules) {
    if (kind !== 'p' && kind !== 'f' && kind !== 'u') continue;
    for (const number of (numbers ?? '').split(','))
      keys.set(number, [...new Set([...(keys.get(number) ?? []), CONSTRAINTS[kind]])]);
  }
  const cells = [
    { key: 'name', label: 'Column', cell: row => html`<b>${row.name}</b>` },
    { key: 'type', label: 'Type', cell: row => html`<code>${row.type}</code>` },
    {
      key: 'not_null',
      label: 'NULL',
      cell: row => (row.not_null === 't' ? 'not null' : html`<span class="muted">nullable</span>`),
    },
    {
      key: 'default',
      label: 'Default',
      cell: row =>
        row.identity
          ? html`<span class="muted">identity</span>`
          : row.default === null
            ? ''
            : html`<code>${row.generated === 's' ? `generated: ${row.default}` : row.default}</code>`,
    },
    { key: 'key', label: 'Key', cell: row => (keys.get(row.number) ?? []).join(', ') },
    { key: 'comment', label: 'Comment', wide: true },
  ];
  const children = about.child.value ?? [];
  const advice = indexAdvice(relation, {
    indexes: about.index.value ?? [],
    constraints: rules,
    columns: about.column.value ?? [],
  });
  return html`<div class="structure">
    <${Failure} error=${about.column.error} />
    ${about.column.value && html`<${Table} label="Columns" columns=${cells} rows=${about.column.value}
      keyOf=${row => row.number} empty="The catalog does not list its columns: see its rows." />`}
    ${
      about.index.value?.length > 0 &&
      html`<h2>Indexes</h2><${Table} label="Indexes" rows=${about.index.value} keyOf=${row => row.name} columns=${[
        { key: 'name', label: 'Index' },
        {
          key: 'kind',
          label: 'Kind',
          cell: row => (row.is_primary === 't' ? 'primary key' : row.is_unique === 't' ? 'unique' : ''),
        },
        { key: 'bytes', label: 'Size', number: true, cell: row => (row.is_primary === 't' ? '' : bytes(row.bytes)) },
        {
          key: 'walks',
          label: 'Used',
          number: true,
          cell: row => (row.walks === null ? '' : html`<span title="since the database was opened">
            ${count(row.walks)}</span>`),
        },
        { key: 'definition', label: 'Definition', wide: true, cell: row => html`<code>${row.definition}</code>` },
        { key: 'advice', label: 'Advice', wide: true, cell: row => advice.of.get(row.name) ?? '' },
      ]} />`
    }
    ${advice.missing.map(
      line => html`<p class="advice"><b>Advice</b> ${line.text} <code>${line.statement}</code></p>`,
    )}
    ${
      rules.length > 0 &&
      html`<h2>Constraints</h2><${Table} label="Constraints" rows=${rules} keyOf=${row => row.name} columns=${[
        { key: 'name', label: 'Constraint' },
        { key: 'kind', label: 'Kind', cell: row => CONSTRAINTS[row.kind] ?? row.kind },
        { key: 'definition', label: 'Definition', wide: true, cell: row => html`<code>${row.definition}</code>` },
      ]} />`
    }
    ${
      children.length > 0 &&
      html`<h2>Referenced by</h2><${Table} label="Referenced by" rows=${children}
        keyOf=${row => `${row.schema}.${row.table_name}.${row.name}`} columns=${[
        {
          key: 'table',
          label: 'Table',
          cell: row =>
            html`<a href=${addressOf({ schema: row.schema, name: row.table_name })}>${row.schema}.${row.table_name}
              </a>`,
        },
        { key: 'definition', label: 'Foreign key', wide: true, cell: row => html`<code>${row.definition}</code>` },
      ]} />`
    }
  </div>`;
}

function Rows({ relation }) {
  const { value, error } = useAnswer(
    () => askForTable(`SELECT * FROM ${qualified(relation)} LIMIT ${ROWS}`),
    [relation],
  );
  const rows = useMemo(() => new GivenRows(value?.rows ?? []), [value]);
  if (error) return html`<${Failure} error=${error} />`;
  if (!value) return html`<p class="empty">Reading.</p>`;
  return html`<${Grid} columns=${value.columns} rows=${rows} total=${value.rows.length}
    label="First ${ROWS} rows of ${relation.name}" />`;
}

function Definition({ text }) {
  return html`<div class="definition"><div class="bar"><button type="button"
    onClick=${() => copy(text, 'Definition')}>Copy</button>
    <small>Put together from what the catalog says.</small></div><pre tabindex="0">${text}</pre></div>`;
}

function tableFacts(size) {
  return [
    ['Rows', count(size.rows)],
    ['All bytes', bytes(size.bytes)],
    ['Base', bytes(size.base_bytes)],
    ['Chunks of the base', count(size.base_chunks)],
    ['Delta', bytes(size.delta_bytes)],
    ['Changed since checkpoint', count(size.delta_rows)],
  ];
}

/** Rows of brick tables lie in bricks alone. */
function brickFacts(all) {
  const sum = key => all.reduce((total, brick) => total + Number(brick[key]), 0);
  return [
    ['Bricks', count(all.length)],
    ['Rows', count(sum('visible_rows'))],
    ['Rows, visible or not', count(sum('rows'))],
    ['All bytes', bytes(sum('bytes'))],
    ['Bytes of values', bytes(sum('value_bytes'))],
    ['Epochs entries', count(sum('epochs_entries'))],
  ];
}

function Head({ relation, size, bricks, onQuery }) {
  return html`<header class="relation-head"><a class="back" href="#data">All tables</a>
    <h1>${relation.schema !== null && html`<span class="muted">${relation.schema}.</span>`}${relation.name}</h1>
    <span class="muted">${KINDS[relation.kind]}${relation.owner ? `, owned by ${relation.owner}` : ''}</span>
    <span class="grow"></span><button type="button" onClick=${onQuery}>Query it</button></header>
    ${relation.comment && html`<p class="comment">${relation.comment}</p>`}
    <${Failure} error=${size?.error} />
    ${size?.value && html`<${Facts} facts=${bricks?.length > 0 ? brickFacts(bricks) : tableFacts(size.value)} />`}`;
}

export function Relation({ relation }) {
  const { value: about } = useAnswer(() => describe(relation), [relation]);
  const [view, setView] = useState('columns');
  const isBricks = about?.brick.value?.length > 0;
  const query = () => {
    const listed = about?.column.value?.map(({ name }) => quoted(name)).join(', ') || '*';
    addTab(`SELECT ${listed}\nFROM ${qualified(relation)}\nLIMIT 100`, relation.name);
    location.hash = '#query';
  };
  const tabs = [
    { key: 'columns', label: 'Columns' },
    { key: 'rows', label: 'Rows' },
  ];
  if (relation.oid !== undefined) tabs.push({ key: 'definition', label: 'Definition' });
  if (isBricks) tabs.push({ key: 'bricks', label: `Bricks (${about.brick.value.length})` });
  const shown = tabs.some(({ key }) => key === view) ? view : 'columns';
  const text = () =>
    KINDS[relation.kind] === 'view'
      ? viewDefinition(relation, about.view.value ?? '')
      : tableDefinition(relation, {
          columns: about.column.value ?? [],
          constraints: about.rule.value ?? [],
          indexes: about.index.value ?? [],
          dimensions: about.dimension.value ?? [],
        });
  return html`<article class="relation" aria-label=${relation.name}>
    <${Head} relation=${relation} size=${about?.size} bricks=${about?.brick.value} onQuery=${query} />
    <${TabList} label="About it" tabs=${tabs} chosen=${shown} panel="about" className="small" onChoose=${setView} />
    <div class="about" role="tabpanel" id="about" aria-labelledby="about-tab-${shown}">
      ${
        shown === 'rows'
          ? html`<${Rows} relation=${relation} />`
          : !about
            ? html`<p class="empty">Reading.</p>`
            : shown === 'columns'
              ? html`<${Columns} relation=${relation} about=${about} />`
              : shown === 'definition'
                ? html`<${Definition} text=${text()} />`
                : html`<${Bricks} rows=${about.brick.value} loads=${about.load.value ?? []}
                    truncated=${about.brick.value.length >= 10_000} />`
      }
    </div></article>`;
}
