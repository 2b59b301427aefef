// SPDX-License-Identifier: Apache-2.0
// uPlot in a place that grows and shrinks, in the colours of the theme.

import { UPlot, useEffect, useLayoutEffect, useRef } from './vendor/libraries.js';
import { html } from './html.js';
import { short } from './figures.js';
import { colour, theme } from './theme.js';

export const SERIES_COLOURS = 6;

function axis(more, text, lines) {
  return { stroke: text, grid: { stroke: lines, width: 1 }, ticks: { stroke: lines, width: 1, size: 4 }, font: '11px system-ui, sans-serif', ...more };
}

/**
 * `series`: `{label, bars}` each, `data`: as uPlot takes it, `labels`: names of the places of x where it is no number,
 * `value`: how a value of y is written.
 */
function options({ series, isTime, labels, value = short, size, yMax, legend }) {
  const text = colour('--muted');
  const lines = colour('--border');
  const hasBars = series.some(({ bars }) => bars);
  const x = labels
    ? axis({ values: (_, splits) => splits.map(at => (Number.isInteger(at) ? clip(labels[at] ?? '') : '')), incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] }, text, lines)
    : axis(isTime ? {} : { values: (_, splits) => splits.map(short) }, text, lines);
  return {
    ...size,
    padding: [10, 12, 0, 0],
    cursor: { y: false, points: { size: 6 } },
    legend: { show: legend },
    scales: {
      x: { time: isTime, ...(hasBars && { range: (_, from, to) => [from - widthOf(from, to, hasBars), to + widthOf(from, to, hasBars)] }) },
      y: { range: (_, from, to) => [Math.min(0, from ?? 0), Math.max(yMax ?? 0, (to ?? 0) * 1.06, from === null || to <= 0 ? 1 : 0)] },
    },
    axes: [x, axis({ size: 54, values: (_, splits) => splits.map(value) }, text, lines)],
    series: [
      { label: 'x', value: (_, at) => (labels ? labels[at] ?? '' : isTime ? (at === null ? '' : new Date(at * 1000).toLocaleTimeString('en-GB')) : at ?? '') },
      ...series.map(({ label, bars, steps }, index) => ({
        label,
        stroke: colour(`--series-${(index % SERIES_COLOURS) + 1}`),
        width: 1.5,
        points: { show: false },
        value: (_, at) => (at === null || at === undefined ? '' : value(at)),
        ...(bars && { fill: colour(`--series-${(index % SERIES_COLOURS) + 1}`), width: 0, paths: UPlot.paths.bars({ size: [0.8 / series.length, 60], align: series.length > 1 ? 1 : 0 }) }),
        ...(steps && { paths: UPlot.paths.stepped({ align: 1 }) }),
      })),
    ],
  };
}

function widthOf(from, to) {
  return to > from ? Math.min(1, (to - from) / 2) : 1;
}

function clip(text) {
  return text.length > 16 ? `${text.slice(0, 15)}…` : text;
}

/** `shape` changes when series or kinds do: then the plot is made anew; otherwise it only takes the data. */
export function Plot({ label, shape, data, height, legend = true, ...rest }) {
  const parent = useRef(null);
  const plot = useRef(null);
  const sizeOf = () => ({ width: Math.max(160, parent.current.clientWidth), height: height ?? Math.max(120, parent.current.clientHeight - 34) });
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
  return html`<div class="plot${height ? ' of-height' : ''}" role="img" aria-label=${label} ref=${parent}
    style=${height ? { minHeight: `${height}px` } : {}}></div>`;
}
