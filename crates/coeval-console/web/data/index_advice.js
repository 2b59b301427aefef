// SPDX-License-Identifier: Apache-2.0
// What the catalog and the counts of use say about indexes: which cost more than they give, and which one is missing.

import { qualified, quoted } from './catalog.js';

const numbers = text => (text ?? '').split(/[ ,]+/).filter(number => number !== '');

/** Whether these columns are the first ones of those others. */
function begins(columns, others) {
  return columns.length > 0 && columns.length <= others.length && columns.every((column, at) => column === others[at]);
}

function isPlain(index) {
  return index.is_primary !== 't' && index.is_unique !== 't';
}

function adviceOn(index, indexes) {
  if (!isPlain(index)) return null;
  const own = numbers(index.columns);
  const covering = indexes.find(other => {
    if (other === index || other.is_partial === 't' || !begins(own, numbers(other.columns))) return false;
    // Of two that are the same, one is to stay.
    return numbers(other.columns).length > own.length || !isPlain(other) || other.name < index.name;
  });
  if (covering) return `${covering.name} begins with the same columns: this one may be dropped.`;
  if (index.walks === '0') return 'Not used since the database was opened: it costs memory, and time for each write.';
  return null;
}

/**
 * `of`: a sentence about indexes by their names; `missing`: `{text, statement}` for foreign keys whose columns no index begins
 * with, so that whoever deletes a row of the other table looks at all rows of this one.
 */
export function indexAdvice(relation, { indexes, constraints, columns }) {
  const of = new Map(indexes.map(index => [index.name, adviceOn(index, indexes)]));
  const nameOf = new Map(columns.map(({ number, name }) => [number, name]));
  const missing = constraints
    .filter(({ kind }) => kind === 'f')
    .map(rule => ({ rule, own: numbers(rule.columns) }))
    .filter(({ own }) => !indexes.some(index => index.is_partial !== 't' && begins(own, numbers(index.columns))))
    .map(({ rule, own }) => ({
      text: `No index begins with the columns of the foreign key ${rule.name}: deleting from the other table looks at all rows here.`,
      statement: `CREATE INDEX ON ${qualified(relation)} (${own.map(number => quoted(nameOf.get(number) ?? number)).join(', ')})`,
    }));
  return { of, missing };
}
