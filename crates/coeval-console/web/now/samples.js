// SPDX-License-Identifier: Apache-2.0
// Five minutes of figures, one reading a second while somebody looks.

import { signal } from '../vendor/libraries.js';
import { figures } from '../server.js';
import { buckets, parse, quantile, single } from './figures_text.js';

export const SECONDS = 300;
/** Quantiles are of so many seconds: one alone may have few statements. */
const QUANTILE_SECONDS = 5;
/** Between readings that are further apart nothing is drawn. */
const GAP_SECONDS = 4;

export const STATES = ['active', 'idle', 'idle in transaction', 'idle in transaction (aborted)'];

/** Readings, the oldest first. */
const readings = [];

/** What the charts show, and the figures of the last reading: `{series, last}`; `null` before the first. */
export const samples = signal(null);
export const failure = signal(null);

/** A figure of the last reading that stands alone; `null` where it is not there. */
export function figure(name) {
  return samples.value && single(samples.value.last, name);
}

/** Whether the server tells this role its own figures: those of all sessions are for members of pg_monitor. */
export function isMonitor() {
  return samples.value !== null && samples.value.last.has('coeval_version');
}

export async function read() {
  try {
    const parsed = parse(await figures());
    readings.push({
      at: Date.now() / 1000,
      figures: parsed,
      statements: buckets(parsed, 'coeval_statement_seconds'),
      publications: buckets(parsed, 'coeval_publication_seconds'),
    });
    failure.value = null;
  } catch (error) {
    failure.value = error;
    return;
  }
  const oldest = readings.at(-1).at - SECONDS - QUANTILE_SECONDS - 1;
  while (readings[0].at < oldest) readings.shift();
  samples.value = { series: series(), last: readings.at(-1).figures };
}

/** A counter's growth per second; `null` across a gap or a restart of the server. */
function rate(before, after, name) {
  if (!before || after.at - before.at > GAP_SECONDS) return null;
  const [from, to] = [single(before.figures, name), single(after.figures, name)];
  return from === null || to === null || to < from ? null : (to - from) / (after.at - before.at);
}

function earlier(index, seconds) {
  let found = index;
  while (
    found > 0 &&
    readings[index].at - readings[found - 1].at <= seconds + 0.5 &&
    readings[found].at - readings[found - 1].at <= GAP_SECONDS
  )
    found -= 1;
  return readings[found];
}

function series() {
  const out = {
    at: [],
    commits: [],
    statements: [],
    errors: [],
    p50: [],
    p99: [],
    commit50: [],
    commit99: [],
    logBytes: [],
    states: STATES.map(() => []),
  };
  readings.forEach((reading, index) => {
    const before = readings[index - 1];
    out.at.push(reading.at);
    out.commits.push(rate(before, reading, 'coeval_version'));
    out.statements.push(rate(before, reading, 'coeval_statement_seconds_count'));
    out.errors.push(rate(before, reading, 'coeval_errors_total'));
    out.logBytes.push(rate(before, reading, 'coeval_log_bytes'));
    const from = earlier(index, QUANTILE_SECONDS);
    const milliseconds = (of, share) => {
      const seconds = from === reading ? null : quantile(from[of], reading[of], share);
      return seconds === null ? null : seconds * 1000;
    };
    out.p50.push(milliseconds('statements', 0.5));
    out.p99.push(milliseconds('statements', 0.99));
    out.commit50.push(milliseconds('publications', 0.5));
    out.commit99.push(milliseconds('publications', 0.99));
    const sessions = reading.figures.get('coeval_sessions') ?? [];
    STATES.forEach((state, place) =>
      out.states[place].push(sessions.find(({ labels }) => labels.state === state)?.value ?? 0),
    );
  });
  return out;
}
