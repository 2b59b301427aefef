// SPDX-License-Identifier: Apache-2.0
// Reads Prometheus' text format, and quantiles out of its histograms.

/** `name{label="value"} 12` by lines: a map of names to lists of `{labels, value}`. */
export function parse(text) {
  const figures = new Map();
  for (const line of text.split('\n')) {
    const found = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/.exec(line);
    if (!found) continue;
    const [, name, inside, value] = found;
    const labels = {};
    for (const [, key, text_] of (inside ?? '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g))
      labels[key] = text_.replace(/\\(.)/g, '$1');
    if (!figures.has(name)) figures.set(name, []);
    figures.get(name).push({ labels, value: value === '+Inf' ? Infinity : Number(value) });
  }
  return figures;
}

/** A figure that stands alone; `null` where it is not there. */
export function single(figures, name) {
  return figures.get(name)?.[0]?.value ?? null;
}

/** Cumulative counts by their upper bounds, in seconds. */
export function buckets(figures, name) {
  return (figures.get(`${name}_bucket`) ?? []).map(({ labels, value }) => ({
    bound: labels.le === '+Inf' ? Infinity : Number(labels.le),
    count: value,
  }));
}

/** The quantile of what came between two readings of a histogram; `null` if nothing did. Even within a bucket. */
export function quantile(before, after, share) {
  const counts = after.map(({ bound, count }, index) => ({ bound, count: count - (before[index]?.count ?? 0) }));
  const all = counts.at(-1)?.count ?? 0;
  if (all <= 0) return null;
  const wanted = all * share;
  let [lower, below] = [0, 0];
  for (const { bound, count } of counts) {
    if (count >= wanted) {
      if (bound === Infinity) return lower;
      return lower + (bound - lower) * (count > below ? (wanted - below) / (count - below) : 1);
    }
    [lower, below] = [bound, count];
  }
  return lower;
}
