// SPDX-License-Identifier: Apache-2.0
// The picture of a brick table: a cell for each pair of ranges of two dimensions, the darker the more rows, or the later its
// last load.

import { useMemo, useState } from '../vendor/libraries.js';
import { html } from '../html.js';
import { Facts } from '../facts.js';
import { bytes, clockOf, count, plural } from '../figures.js';
import { Table } from '../table.js';
import { cells, readBricks } from './brick_ranges.js';

/** More cells than this along a side cannot be told apart. */
const SIDE_MAX = 160;
const FAINTEST = 0.14;
/** Of a cell that has nothing, or of which nothing is known. */
const NEXT_TO_NOTHING = 0.05;
/** Narrower cells have no room for what stands below them. */
const LABELLED_WIDTH = 14;

/** What the cells can be as dark as they have much of, or as it is late. */
const HEATS = {
  rows: 'rows',
  visible: 'rows in sight',
  epochsEntries: 'epochs entries',
  bytes: 'bytes',
  lastLoad: 'last load',
};

/** Little is to be seen beside much. */
function strengthOf(value, most) {
  return value === 0 ? NEXT_TO_NOTHING : FAINTEST + (1 - FAINTEST) * Math.sqrt(value / most);
}

/** The last load is the darkest, and the others are as far from it as they are in time. */
function strengthAt(at, loads) {
  if (at === null) return NEXT_TO_NOTHING;
  const share = loads.last === loads.first ? 1 : (at - loads.first) / (loads.last - loads.first);
  return FAINTEST + (1 - FAINTEST) * share;
}

/** How dark each cell is, and what the darkest one stands for. */
function scaleOf(heat, { most: mostOf, loads: loadsOf }) {
  if (heat === 'lastLoad') {
    const loads = loadsOf();
    const text = loads ? `loaded last from ${clockOf(loads.first)} to ${clockOf(loads.last)}` : 'no load is known';
    return { strength: cell => strengthAt(cell.lastLoad, loads), text };
  }
  const most = mostOf(heat);
  const text = `at most ${heat === 'bytes' ? bytes(most) : `${count(most)} ${HEATS[heat]}`} in a cell`;
  return { strength: cell => strengthOf(cell[heat], most), text };
}

function About({ cell, names, texts }) {
  if (!texts) return html`<p class="muted">Point at a cell, or go to one by the arrows.</p>`;
  const place = names.map((name, index) => [name, texts[index]]);
  if (!cell) return html`<${Facts} facts=${[...place, ['Bricks', 'none']]} />`;
  return html`<${Facts} facts=${[
    ...place,
    ['Bricks', count(cell.bricks)],
    ['Rows', count(cell.rows)],
    ['Rows in sight', count(cell.visible)],
    ['Bytes', bytes(cell.bytes)],
    ['of values', bytes(cell.valueBytes)],
    ['Epochs entries', count(cell.epochsEntries)],
    ['Epochs bytes', bytes(cell.epochsBytes)],
    ['Newest epoch', cell.newestEpoch === null ? 'none in sight' : count(cell.newestEpoch)],
    ['Last load', cell.lastLoad === null ? 'not known' : clockOf(cell.lastLoad)],
  ]} />`;
}

function idOf(column, row) {
  return `brick-${column}-${row}`;
}

function Cell({ place: [column, row], x, y, width, strength, cell, isActive }) {
  const ranges = y ? `${x.text}, ${y.text}` : x.text;
  const look = { width: `${width}px`, height: `${width}px` };
  if (cell) look.backgroundColor = `rgb(var(--heat) / ${strength(cell)})`;
  return html`<span id=${idOf(column, row)} role="gridcell" data-x=${column} data-y=${row} aria-selected=${isActive}
    class="brick${cell ? '' : ' none'}${isActive ? ' active' : ''}" style=${look}
    aria-label="${ranges}: ${cell ? plural(cell.rows, 'row') : 'no brick'}"></span>`;
}

/** Where each range along x begins. */
function Below({ xs, width }) {
  return html`<div class="picture-row" role="presentation"><span class="picture-label"></span>
    ${xs.map(x => html`<span class="picture-x" style=${{ width: `${width}px` }}><span>${x.from}</span></span>`)}</div>`;
}

function Picture({ xs, ys, at, strength, active, onActive }) {
  const keydown = event => {
    const step = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
    const [x, y] = active ?? [0, 0];
    let next = null;
    if (step) next = active ? [x + step[0], y + step[1]] : [0, 0];
    else if (event.key === 'Home') next = [0, event.ctrlKey ? 0 : y];
    else if (event.key === 'End') next = [xs.length - 1, event.ctrlKey ? ys.length - 1 : y];
    if (!next) return;
    event.preventDefault();
    onActive([Math.max(0, Math.min(xs.length - 1, next[0])), Math.max(0, Math.min(ys.length - 1, next[1]))]);
  };
  const over = event => {
    const cell = event.target.closest('[data-x]');
    if (cell) onActive([Number(cell.dataset.x), Number(cell.dataset.y)]);
  };
  const width = xs.length > 60 ? 8 : xs.length > 24 ? 14 : 24;
  return html`<div class="picture-scroll">
    <div class="picture" role="grid" tabindex="0" aria-label="Bricks" aria-rowcount=${ys.length}
        aria-colcount=${xs.length} aria-activedescendant=${active ? idOf(...active) : undefined}
        onKeyDown=${keydown} onPointerOver=${over} onClick=${over}>
      ${ys.map(
        (y, row) => html`<div class="picture-row" role="row" key=${row}>
          <span class="picture-label" role="rowheader">${y === null ? '' : y.from}</span>
          ${xs.map(
            (x, column) => html`<${Cell} key=${column} place=${[column, row]} x=${x} y=${y} width=${width} strength=${strength}
              cell=${at(x.text, y?.text ?? null)} isActive=${active?.[0] === column && active?.[1] === row} />`,
          )}</div>`,
      )}
      ${width >= LABELLED_WIDTH && html`<${Below} xs=${xs} width=${width} />`}
    </div></div>`;
}

function Dimension({ label, chosen, all, onChoose }) {
  return html`<label>${label} <select value=${chosen.name} onChange=${onChoose}>
    ${all.map(({ name, ranges }) => html`<option value=${name}>${name} (${ranges.length})</option>`)}</select></label>`;
}

function Heat({ heat, onChoose }) {
  return html`<label>Heat by <select value=${heat} onChange=${onChoose}>
    ${Object.entries(HEATS).map(([key, label]) => html`<option value=${key}>${label}</option>`)}</select></label>`;
}

/** How far each source has come that loads name with their offsets. */
function Loads({ loads }) {
  const columns = [
    { key: 'source', label: 'Source' },
    { key: 'last_offset', label: 'Last load ended at', number: true, cell: row => count(row.last_offset) },
    { key: 'rows', label: 'Rows', number: true, cell: row => count(row.rows) },
  ];
  return html`<h2>Loads</h2><${Table} label="Loads" columns=${columns} rows=${loads} keyOf=${row => row.source} />`;
}

export function Bricks({ rows, loads, truncated }) {
  const { bricks, dimensions } = useMemo(() => readBricks(rows), [rows]);
  const [xName, setX] = useState(null);
  const [yName, setY] = useState(null);
  const [heat, setHeat] = useState('rows');
  const [active, setActive] = useState(null);
  if (dimensions.length === 0) {
    const hidden = `${plural(rows.length, 'brick')}. Their ranges are not shown to this role.`;
    return html`<p class="empty">${rows.length === 0 ? 'No bricks yet.' : hidden}</p>`;
  }
  // The dimension with most ranges goes along x.
  const byRanges = dimensions.toSorted((a, b) => b.ranges.length - a.ranges.length);
  const x = dimensions.find(({ name }) => name === xName) ?? byRanges[0];
  const others = dimensions.filter(one => one !== x);
  const y = others.find(({ name }) => name === yName) ?? byRanges.find(one => one !== x) ?? null;
  const { at, ...extremes } = cells(bricks, x.name, y?.name ?? null);
  const { strength, text } = scaleOf(heat, extremes);
  const xs = x.ranges.slice(0, SIDE_MAX);
  const ys = y ? y.ranges.slice(0, SIDE_MAX) : [null];
  const isCut = x.ranges.length > SIDE_MAX || (y?.ranges.length ?? 0) > SIDE_MAX;
  const [column, row] = active ?? [null, null];
  const isInside = active && column < xs.length && row < ys.length;
  const texts = isInside ? [xs[column].text, ...(y ? [ys[row].text] : [])] : null;
  const choose = set => event => {
    set(event.target.value);
    setActive(null);
  };
  const number = `${plural(bricks.length, 'brick')}${truncated ? ' (cut)' : ''}`;
  const about = [number, text];
  if (isCut) about.push(`the first ${SIDE_MAX} ranges of a dimension`);
  const names = y ? [x.name, y.name] : [x.name];
  const cell = isInside ? at(xs[column].text, ys[row]?.text ?? null) : null;
  return html`<div class="bricks">
    <div class="bar">
      <${Dimension} label="Along x" chosen=${x} all=${dimensions} onChoose=${choose(setX)} />
      ${y && html`<${Dimension} label="Along y" chosen=${y} all=${others} onChoose=${choose(setY)} />`}
      <${Heat} heat=${heat} onChoose=${event => setHeat(event.target.value)} />
      <span class="muted">${about.join(', ')}</span></div>
    <div class="bricks-and-facts">
      <${Picture} xs=${xs} ys=${ys} at=${at} strength=${strength} active=${isInside ? active : null} onActive=${setActive} />
      <aside aria-label="The cell" aria-live="polite"><${About} cell=${cell} names=${names} texts=${texts} /></aside>
    </div>
    ${loads.length > 0 && html`<${Loads} loads=${loads} />`}</div>`;
}
