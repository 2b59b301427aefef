// SPDX-License-Identifier: Apache-2.0
// Where each session of a graph of waits stands: who waits for nobody on the left, who waits to the right of all that it waits for.

/** `{nodes, columns, rows}` of waits with `pid` and `blocked_by`: nodes have `pid`, `column`, `row` and `waits`. */
export function place(waits) {
  const blockers = new Map();
  for (const { pid, blocked_by: blocker } of waits) {
    blockers.set(pid, [...(blockers.get(pid) ?? []), blocker]);
    if (!blockers.has(blocker)) blockers.set(blocker, []);
  }
  const columnOf = new Map();
  // A circle is ended by the server within a moment; until then its last wait is looked at as none.
  const column = (pid, way) => {
    if (columnOf.has(pid)) return columnOf.get(pid);
    const others = blockers.get(pid).filter(blocker => !way.has(blocker));
    const further = new Set(way).add(pid);
    const found = others.length === 0 ? 0 : 1 + Math.max(...others.map(blocker => column(blocker, further)));
    columnOf.set(pid, found);
    return found;
  };
  for (const pid of blockers.keys()) column(pid, new Set([pid]));
  const rowsOf = new Map();
  const nodes = [...blockers.keys()].map(pid => {
    const at = columnOf.get(pid);
    const row = rowsOf.get(at) ?? 0;
    rowsOf.set(at, row + 1);
    return { pid, column: at, row, waits: blockers.get(pid).length > 0 };
  });
  return { nodes, columns: Math.max(0, ...columnOf.values()) + 1, rows: Math.max(0, ...rowsOf.values()) };
}
