// SPDX-License-Identifier: Apache-2.0
// A grid of any number of rows, of which only those in view are elements. Browsers limit how high an element can be, so
// that beyond some height a step of the scroll bar stands for more than one pixel of rows.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from '../vendor/libraries.js';
import { html } from '../html.js';
import { copy } from '../clipboard.js';
import { count } from '../figures.js';
import { isNumber, numberColumnWidth, widthsFor } from './columns.js';
import { ValuePane } from './value.js';

const ROW = 24;
const HEADER = 26;
const HEIGHT_MAX = 8_000_000;
/** More text than a cell can show makes elements slow. */
const SHOWN_MAX = 240;
const ROWS_MEASURED = 100;

/** Where the view is: `top` counts pixels of rows, as if elements could be as high as all of them. */
function useScrolling(total) {
  const scroller = useRef(null);
  const [size, setSize] = useState({ height: 300, width: 600 });
  const [position, setPosition] = useState({ top: 0, left: 0 });
  const own = useRef(null);
  const viewHeight = Math.max(ROW, size.height - HEADER);
  const allHeight = total * ROW;
  const height = Math.min(allHeight, HEIGHT_MAX);
  const topMax = Math.max(0, allHeight - viewHeight);
  const scale = topMax > 0 && height < allHeight ? topMax / (height - viewHeight) : 1;

  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      const { clientHeight, clientWidth } = entry.target;
      if (clientHeight > 0) setSize({ height: clientHeight, width: clientWidth });
    });
    observer.observe(scroller.current);
    return () => observer.disconnect();
  }, []);

  const moveTo = top => {
    const next = Math.max(0, Math.min(topMax, top));
    own.current = Math.round(next / scale);
    scroller.current.scrollTop = own.current;
    setPosition(before => ({ ...before, top: next }));
  };
  const onScroll = () => {
    const { scrollTop, scrollLeft } = scroller.current;
    // Where it was moved to from here is known better than the scroll bar can say.
    const isOwn = own.current !== null && Math.abs(scrollTop - own.current) <= 1;
    own.current = isOwn ? own.current : null;
    setPosition(before => ({ top: isOwn ? before.top : Math.min(topMax, scrollTop * scale), left: scrollLeft }));
  };
  const state = useRef({});
  state.current = { scale, top: position.top, moveTo };
  useEffect(() => {
    const element = scroller.current;
    const wheel = event => {
      const { scale: now, top, moveTo: move } = state.current;
      if (now === 1 || event.ctrlKey || event.deltaY === 0) return;
      event.preventDefault();
      move(top + event.deltaY * (event.deltaMode === 1 ? ROW : 1));
      if (event.deltaX !== 0) element.scrollLeft += event.deltaX;
    };
    element.addEventListener('wheel', wheel, { passive: false });
    return () => element.removeEventListener('wheel', wheel);
  }, []);
  return {
    scroller,
    onScroll,
    moveTo,
    height,
    viewHeight,
    width: size.width,
    top: Math.min(position.top, topMax),
    left: position.left,
  };
}

/** Columns' widths: from the first rows that come, until somebody drags one. Those of numbers grow with what is seen. */
function useWidths(columns, rows, { total, from, to }) {
  const measured = useRef(null);
  const [dragged, setDragged] = useState({});
  let widths = measured.current?.columns === columns ? measured.current.widths : null;
  if (!widths) {
    const sample = [];
    for (let index = 0; index < Math.min(total, ROWS_MEASURED); index += 1) {
      const row = rows.row(index);
      if (row) sample.push(row);
    }
    widths = widthsFor(columns, sample);
    if (sample.length > 0) measured.current = { columns, widths };
  }
  const seen = [];
  for (let index = from; index < to; index += 1) if (rows.row(index)) seen.push(rows.row(index));
  const wider = widthsFor(columns, seen);
  widths.forEach((width, index) => {
    if (isNumber(columns[index].type)) widths[index] = Math.max(width, wider[index]);
  });
  return [
    widths.map((width, index) => dragged[index] ?? width),
    (index, width) => setDragged(before => ({ ...before, [index]: Math.max(32, Math.round(width)) })),
  ];
}

function Handle({ width, onWidth }) {
  const down = event => {
    event.preventDefault();
    event.stopPropagation();
    const handle = event.currentTarget;
    const from = event.clientX;
    handle.setPointerCapture(event.pointerId);
    handle.onpointermove = move => onWidth(width + move.clientX - from);
    handle.onpointerup = () => {
      handle.onpointermove = null;
    };
  };
  return html`<span class="column-handle" aria-hidden="true" onPointerDown=${down}></span>`;
}

/** What a cell shows of a value: its beginning, in one line. */
function oneLine(value) {
  const shown = value.length > SHOWN_MAX ? `${value.slice(0, SHOWN_MAX)}…` : value;
  return shown.includes('\n') ? shown.replaceAll(/\r?\n/g, '↵') : shown;
}

function Cell({ id, value, column, width, place, isActive }) {
  const className = `cell${isNumber(column.type) ? ' number' : ''}${isActive ? ' active' : ''}`;
  const shown =
    value === null
      ? html`<span class="null">NULL</span>`
      : value === ''
        ? html`<span class="null" aria-label="empty"> </span>`
        : oneLine(value);
  return html`<div class=${className} role="gridcell" id=${id} aria-colindex=${place + 2} aria-selected=${isActive}
    data-column=${place} style=${{ width: `${width}px` }}>${shown}</div>`;
}

let grids = 0;

/** `rows` is of `result_rows.js`; `total` says how many there are so far. */
export function Grid({ columns, rows, total: seen, label }) {
  // Of a result that was too long only the first rows are there.
  const total = Math.min(seen, rows.end.value ?? seen);
  const id = useMemo(() => `grid-${(grids += 1)}`, []);
  const [active, setActive] = useState({ row: 0, column: 0 });
  const [isOpen, setOpen] = useState(false);
  const { scroller, onScroll, moveTo, height, viewHeight, width, top, left } = useScrolling(total);
  // Read so that rows that come are drawn.
  void rows.version.value;
  const firstRow = Math.max(0, Math.floor(top / ROW) - 2);
  const lastRow = Math.min(total, Math.ceil((top + viewHeight) / ROW) + 2);
  const [widths, setWidth] = useWidths(columns, rows, { total, from: firstRow, to: lastRow });
  const numberWidth = numberColumnWidth(total);
  const ends = [];
  widths.reduce((sum, one, index) => (ends[index] = sum + one), 0);
  const allWidth = numberWidth + (ends.at(-1) ?? 0);

  useEffect(() => {
    rows.want(firstRow, lastRow);
  }, [rows, firstRow, lastRow, total, rows.version.value]);

  let firstColumn = ends.findIndex(end => end > left);
  if (firstColumn < 0) firstColumn = Math.max(0, columns.length - 1);
  let lastColumn = ends.findIndex(end => end >= left + width);
  lastColumn = lastColumn < 0 ? columns.length : lastColumn + 1;
  const spacer = firstColumn > 0 ? ends[firstColumn - 1] : 0;
  const shownColumns = columns.slice(firstColumn, lastColumn).map((column, index) => [column, firstColumn + index]);

  const show = (row, column) => {
    const next = {
      row: Math.max(0, Math.min(total - 1, row)),
      column: Math.max(0, Math.min(columns.length - 1, column)),
    };
    setActive(next);
    if (next.row * ROW < top) moveTo(next.row * ROW);
    else if ((next.row + 1) * ROW > top + viewHeight) moveTo((next.row + 1) * ROW - viewHeight);
    const start = next.column > 0 ? ends[next.column - 1] : 0;
    const element = scroller.current;
    if (start < left) element.scrollLeft = start;
    else if (ends[next.column] > left + width - numberWidth)
      element.scrollLeft = ends[next.column] - width + numberWidth;
  };
  const activeRow = rows.row(active.row);
  // The value that has opened takes room: its cell is to be seen beside it.
  useEffect(() => {
    if (isOpen) show(active.row, active.column);
  }, [isOpen, viewHeight, width]);
  const keydown = event => {
    const page = Math.max(1, Math.floor(viewHeight / ROW) - 1);
    const moves = {
      ArrowDown: [1, 0],
      ArrowUp: [-1, 0],
      ArrowRight: [0, 1],
      ArrowLeft: [0, -1],
      PageDown: [page, 0],
      PageUp: [-page, 0],
    };
    const control = event.ctrlKey || event.metaKey;
    if (event.key in moves && !control) show(active.row + moves[event.key][0], active.column + moves[event.key][1]);
    else if (event.key === 'Home') show(control ? 0 : active.row, 0);
    else if (event.key === 'End') show(control ? total - 1 : active.row, columns.length - 1);
    else if (control && event.key.toLowerCase() === 'c' && activeRow) {
      if (getSelection().toString() !== '') return;
      copy(activeRow[active.column] ?? '', 'Cell');
    } else if (event.key === 'Enter' || event.key === ' ') setOpen(true);
    else if (event.key === 'Escape' && isOpen) setOpen(false);
    else return;
    event.preventDefault();
  };
  const click = event => {
    const cell = event.target.closest('[role=gridcell]');
    if (!cell) return;
    const row = Number(cell.parentElement.dataset.row);
    const column = Number(cell.dataset.column);
    setActive({ row, column });
    const value = rows.row(row)?.[column];
    if (cell.scrollWidth > cell.clientWidth || value?.includes('\n') || event.detail > 1) setOpen(true);
  };
  const close = () => {
    setOpen(false);
    scroller.current.focus();
  };

  const body = [];
  for (let index = firstRow; index < lastRow; index += 1) {
    const row = rows.row(index);
    body.push(html`<div class="row${index % 2 ? ' odd' : ''}${row ? '' : ' coming'}" role="row" key=${index}
      aria-rowindex=${index + 2} data-row=${index}
        style=${{ transform: `translateY(${HEADER + index * ROW - top}px)`, width: `${allWidth}px` }}>
      <div class="row-number" role="rowheader" aria-colindex="1" style=${{ width: `${numberWidth}px` }}>
        ${count(index + 1)}</div>
      <div class="spacer" role="presentation" style=${{ width: `${spacer}px` }}></div>
      ${
        row &&
        shownColumns.map(
          ([column, place]) => html`<${Cell} key=${place} id="${id}-${index}-${place}"
        value=${row[place]} column=${column} place=${place} width=${widths[place]}
        isActive=${index === active.row && place === active.column} />`,
        )
      }</div>`);
  }
  const activeId =
    activeRow &&
    active.row >= firstRow &&
    active.row < lastRow &&
    active.column >= firstColumn &&
    active.column < lastColumn
      ? `${id}-${active.row}-${active.column}`
      : undefined;
  return html`<div class="grid-and-value">
    <div class="grid" role="grid" tabindex="0" ref=${scroller} aria-label=${label} aria-rowcount=${total + 1}
        aria-colcount=${columns.length + 1} aria-activedescendant=${activeId} aria-readonly="true"
        onScroll=${onScroll} onKeyDown=${keydown} onClick=${click}>
      <div class="grid-all" role="presentation" style=${{ height: `${height + HEADER}px`, width: `${allWidth}px` }}>
        <div class="grid-view" role="rowgroup"
          style=${{ height: `${viewHeight + HEADER}px`, width: `${allWidth}px` }}>
          <div class="row head" role="row" aria-rowindex="1" style=${{ width: `${allWidth}px` }}>
            <div class="row-number" role="columnheader" aria-colindex="1"
              style=${{ width: `${numberWidth}px` }}><span class="visually-hidden">Row</span></div>
            <div class="spacer" role="presentation" style=${{ width: `${spacer}px` }}></div>
            ${shownColumns.map(
              ([column, place]) => html`<div key=${place} role="columnheader" aria-colindex=${place + 2}
              class="cell${isNumber(column.type) ? ' number' : ''}" title="${column.name} ${column.type}"
                style=${{ width: `${widths[place]}px` }}>
              ${column.name}<${Handle} width=${widths[place]} onWidth=${to => setWidth(place, to)} /></div>`,
            )}
          </div>
          ${body}
        </div>
      </div>
      ${total === 0 && html`<p class="empty" role="presentation">No rows.</p>`}
    </div>
    ${
      isOpen &&
      activeRow &&
      columns[active.column] &&
      html`<${ValuePane} column=${columns[active.column]}
      rowNumber=${active.row + 1} row=${activeRow} value=${activeRow[active.column]} onClose=${close} />`
    }
  </div>`;
}
