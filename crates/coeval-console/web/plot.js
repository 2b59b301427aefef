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
  if (seconds) {
    return {
      space: 40,
      // Whole minutes: their names have no seconds.
      incrs: [60, 120, 300],
      values: (_, splits) => splits.map(at => clock(at, { hasSeconds: false })),
    };
  }
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
    range: (_, from, to) =>
      from === null || from <= 0
        ? [0.01, 100]
        : [
            10 ** Math.floor(Math.log10(from)),
            10 ** Math.max(Math.ceil(Math.log10(to)), Math.floor(Math.log10(from)) + 1),
          ],
  };
}

function marksOfY({ isLogarithmic, value }) {
  if (!isLogarithmic) return { values: (_, splits) => splits.map(value) };
  const powers = (_, __, from, to) => {
    const first = Math.round(Math.log10(from));
    return Array.from({ length: Math.round(Math.log10(to)) - first + 1 }, (___, index) => 10 ** (first + index));
  };
  return { splits: powers, filter: (_, splits) => splits, values: (_, splits) => splits.map(value) };
}

const BARS_SHARE = 0.8;
const BAR_WIDTH_MAX = 60;

/** Bars of one place stand side by side. */
function barPaths(index, count) {
  return (plot, series, from, to) => {
    const fill = new Path2D();
    const [places, values] = [plot.data[0], plot.data[series]];
    const step = Math.abs(plot.valToPos(1, 'x', true) - plot.valToPos(0, 'x', true));
    const width = Math.max(1, Math.min(BAR_WIDTH_MAX * devicePixelRatio, (step * BARS_SHARE) / count));
    const zero = plot.valToPos(0, 'y', true);
    for (let at = from; at <= to; at += 1) {
      if (values[at] === null || values[at] === undefined) continue;
      const left = plot.valToPos(places[at], 'x', true) + (index - count / 2) * width;
      const top = plot.valToPos(values[at], 'y', true);
      fill.rect(left, Math.min(top, zero), Math.max(1, width - (width > 4 ? 1 : 0)), Math.abs(top - zero));
    }
    return { fill, stroke: fill, flags: 0 };
  };
}

function seriesOf({ label, bars, steps }, index, { value, count }) {
  const stroke = colour(`--series-${(index % SERIES_COLOURS) + 1}`);
  const look = {
    label,
    stroke,
    width: 1.5,
    points: { show: false },
    value: (_, at) => (at === null || at === undefined ? '' : value(at)),
  };
  if (bars) return { ...look, fill: stroke, width: 0, paths: barPaths(index, count) };
  return steps ? { ...look, paths: UPlot.paths.stepped({ align: 1 }) } : look;
}

function options({ series, legend, size, value = short, ...rest }) {
  const [text, lines] = [colour('--muted'), colour('--border')];
  const axis = marks => ({
    stroke: text,
    grid: { stroke: lines, width: 1 },
    ticks: { stroke: lines, width: 1, size: 4 },
    font: '11px system-ui, sans-serif',
    ...marks,
  });
  const hasBars = series.some(({ bars }) => bars);
  const { isTime, seconds, labels } = rest;
  const name = at =>
    at === null || at === undefined
      ? ''
      : labels
        ? (labels[at] ?? '')
        : isTime
          ? seconds
            ? clock(at, { hasSeconds: true })
            : new Date(at * 1000).toLocaleString('en-GB')
          : at;
  return {
    ...size,
    // On the right there is half a mark of the axis.
    padding: [10, 20, 0, 0],
    cursor: { y: false, points: { size: 6 } },
    legend: { show: legend },
    scales: { x: { time: isTime, ...rangeOfX({ seconds, hasBars }) }, y: scaleOfY(rest) },
    axes: [
      axis({ ...marksOfX(rest), ...(seconds && { size: 28 }) }),
      axis({ size: 58, ...marksOfY({ ...rest, value }) }),
    ],
    series: [
      { label: rest.xLabel ?? 'x', value: (_, at) => name(at) },
      ...series.map((one, index) => seriesOf(one, index, { value, count: series.length })),
    ],
  };
}

/**
 * `series`: `{label, bars, steps}` each; `data`: as uPlot takes it; `labels`: the names of the places of x where it is no
 * number; `xLabel`: what x is called; `value`: how a value of y is written; `seconds`: how many of them are shown, up to
 * the last one. When `shape` changes the plot is made anew, otherwise it only takes the data.
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
  useEffect(() => {
    plot.current?.setData(data);
  }, [data]);
  return html`<div class="plot" role="img" aria-label=${label} ref=${parent}
    style=${height ? { minHeight: `${height}px` } : {}}></div>`;
}
