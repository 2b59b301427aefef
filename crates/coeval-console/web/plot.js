// SPDX-License-Identifier: Apache-2.0
// uPlot in a place that grows and shrinks, in the colours of the theme.

import { UPlot, useEffect, useLayoutEffect, useRef } from './vendor/libraries.js';
import { html } from './html.js';
import { short } from './figures.js';
import { colour, theme } from './theme.js';

export const SERIES_COLOURS = 6;

/** The height of the legend below a plot. */
const LEGEND = 34;
const LABEL_MAX = 16;

function clip(text) {
  return text.length > LABEL_MAX ? `${text.slice(0, LABEL_MAX - 1)}…` : text;
}

function clock(seconds, { hasSeconds }) {
  const text = new Date(seconds * 1000).toLocaleTimeString('en-GB');
  return hasSeconds ? text : text.slice(0, 5);
}

/** How the values of x are written on the axis, and where they stand. */
function marksOfX({ isTime, seconds, labels }) {
  if (labels) {
    return {
      values: (_, splits) => splits.map(at => (Number.isInteger(at) ? clip(labels[at] ?? '') : '')),
      incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000],
      space: 70,
    };
  }
  if (seconds) return { values: (_, splits) => splits.map(at => clock(at, { hasSeconds: false })) };
  return isTime ? {} : { values: (_, splits) => splits.map(short) };
}

function rangeOfX({ seconds, hasBars }) {
  if (seconds) return { range: (_, from, to) => [to - seconds, to] };
  // The first and the last bar are to be seen whole.
  return hasBars ? { range: (_, from, to) => [from - 0.6, to + 0.6] } : {};
}

/** From nothing on, and with some room above; logarithmic ones between powers of ten. */
function scaleOfY({ isLogarithmic }) {
  if (!isLogarithmic) {
    return {
      range: (_, from, to) => {
        const least = Math.min(0, from ?? 0);
        const most = Math.max(0, to ?? 0);
        return [least * 1.06, most === least ? least + 1 : most * 1.06];
      },
    };
  }
  return {
    distr: 3,
    range: (_, from, to) => (from === null || from <= 0 ? [0.01, 100]
      : [10 ** Math.floor(Math.log10(from)), 10 ** Math.max(Math.ceil(Math.log10(to)), Math.floor(Math.log10(from)) + 1)]),
  };
}

function marksOfY({ isLogarithmic, value }) {
  if (!isLogarithmic) return { values: (_, splits) => splits.map(value) };
  const isPower = at => Math.abs(Math.log10(at) - Math.round(Math.log10(at))) < 1e-9;
  return { filter: (_, splits) => splits.map(at => (isPower(at) ? at : null)), values: (_, splits) => splits.map(at => (at === null ? '' : value(at))) };
}

function seriesOf({ label, bars, steps }, index, { value, count }) {
  const stroke = colour(`--series-${(index % SERIES_COLOURS) + 1}`);
  const look = { label, stroke, width: 1.5, points: { show: false }, value: (_, at) => (at === null || at === undefined ? '' : value(at)) };
  // Bars of one place stand side by side.
  if (bars) return { ...look, fill: stroke, width: 0, paths: UPlot.paths.bars({ size: [0.8 / count, 60], align: count > 1 ? 1 : 0 }) };
  return steps ? { ...look, paths: UPlot.paths.stepped({ align: 1 }) } : look;
}

function options({ series, legend, size, value = short, ...rest }) {
  const [text, lines] = [colour('--muted'), colour('--border')];
  const axis = marks => ({
    stroke: text, grid: { stroke: lines, width: 1 }, ticks: { stroke: lines, width: 1, size: 4 }, font: '11px system-ui, sans-serif', ...marks,
  });
  const hasBars = series.some(({ bars }) => bars);
  const { isTime, seconds, labels } = rest;
  const name = at => (at === null || at === undefined ? '' : labels ? labels[at] ?? '' : isTime ? (seconds ? clock(at, { hasSeconds: true }) : new Date(at * 1000).toLocaleString('en-GB')) : at);
  return {
    ...size,
    padding: [10, 12, 0, 0],
    cursor: { y: false, points: { size: 6 } },
    legend: { show: legend },
    scales: { x: { time: isTime, ...rangeOfX({ seconds, hasBars }) }, y: scaleOfY(rest) },
    axes: [axis({ ...marksOfX(rest), ...(seconds && { size: 28 }) }), axis({ size: 58, ...marksOfY({ ...rest, value }) })],
    series: [{ label: 'x', value: (_, at) => name(at) }, ...series.map((one, index) => seriesOf(one, index, { value, count: series.length }))],
  };
}

/**
 * `series`: `{label, bars, steps}` each; `data`: as uPlot takes it; `labels`: the names of the places of x where it is no
 * number; `value`: how a value of y is written; `seconds`: how many of them are shown, up to the last one. When `shape`
 * changes the plot is made anew, otherwise it only takes the data.
 */
export function Plot({ label, shape, data, height, legend = true, ...rest }) {
  const parent = useRef(null);
  const plot = useRef(null);
  const sizeOf = () => ({
    width: Math.max(160, parent.current.clientWidth),
    height: height ?? Math.max(120, parent.current.clientHeight - (legend ? LEGEND : 0)),
  });
  useLayoutEffect(() => {
    plot.current = new UPlot(options({ ...rest, legend, size: sizeOf() }), data, parent.current);
    const observer = new ResizeObserver(() => plot.current?.setSize(sizeOf()));
    observer.observe(parent.current);
    return () => {
      observer.disconnect();
      plot.current.destroy();
      plot.current = null;
    };
  }, [shape, theme.value]);
  useEffect(() => { plot.current?.setData(data); }, [data]);
  return html`<div class="plot" role="img" aria-label=${label} ref=${parent} style=${height ? { minHeight: `${height}px` } : {}}></div>`;
}
