// SPDX-License-Identifier: Apache-2.0
// Whether those are connected that commits wait for.

/** How many machines `FIRST 2 (a, b, c)` asks for, as the server shows the setting; `null` if commits wait for nobody. */
function askedBy(names) {
  const found = /^(?:FIRST|ANY) (\d+) \(/.exec(names ?? '');
  return found && Number(found[1]);
}

/**
 * How many machines are connected that are listed; `null` where this role is not told. A name is one machine, also while a broken
 * connection of it is still there; where any name will do, each connection counts.
 */
function connected(names, replicas) {
  if (replicas.some(({ sync_state: kind }) => kind === null)) return null;
  const isAny = names.replaceAll(/"[^"]*"/g, '').includes('*');
  const listed = replicas.filter(({ sync_state: kind }) => kind !== 'async');
  return new Set(listed.map(({ pid, application_name: name }) => (isAny ? pid : (name ?? '').toLowerCase()))).size;
}

/**
 * `{connected, mark}` of the setting `names` and the rows of `pg_stat_replication`, while so many sessions wait for replicas; `null` if
 * nobody is asked for. Too few are bad once somebody waits. Nobody may have to: a primary that is listed does not wait for itself.
 */
export function synchronous(names, replicas, waiting) {
  const asked = askedBy(names);
  if (asked === null) return null;
  const there = connected(names, replicas);
  const isShort = there !== null && there < asked;
  return { connected: there, mark: isShort ? (waiting > 0 ? 'bad' : 'warning') : '' };
}
