// SPDX-License-Identifier: Apache-2.0
// The part where one looks around: which tables there are, and what they are.

import { useEffect, useMemo, useState } from '../vendor/libraries.js';
import { html } from '../html.js';
import { Failure } from '../failure.js';
import { relations } from './catalog.js';
import { Relation } from './relation.js';
import { SYSTEM, Tree } from './tree.js';

/** `names`: schema and table out of the address. */
export function DataPage({ names }) {
  const [all, setAll] = useState(null);
  const [error, setError] = useState(null);
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    relations().then(found => {
      setAll(found);
      setError(null);
    }, setError);
  }, [turn]);
  const [schema, name] = names;
  const relation = useMemo(() => {
    if (!all || name === undefined) return null;
    if (schema === SYSTEM) return { schema: null, name, kind: 'r' };
    return all.find(one => one.schema === schema && one.name === name) ?? null;
  }, [all, schema, name]);
  const missing = `There is no ${schema}.${name}, or it is not shown to this role.`;
  return html`<section class="data${relation ? ' has-relation' : ''}" aria-label="Data">
    ${!relation && html`<h1 class="visually-hidden">Data</h1>`}
    <nav class="side" aria-label="Tables">
      <div class="bar"><h2 class="grow">Tables</h2><button type="button" class="quiet"
        onClick=${() => setTurn(turn + 1)}>Refresh</button></div>
      <${Failure} error=${error} />
      ${all && html`<${Tree} relations=${all} chosen=${relation && [schema, name]} />`}</nav>
    <div class="shown">
      ${
        relation
          ? html`<${Relation} key="${schema}/${name}" relation=${relation} />`
          : html`<p class="empty">
            ${all && name !== undefined ? missing : 'Choose a table.'}</p>`
      }
    </div></section>`;
}
