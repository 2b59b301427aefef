// SPDX-License-Identifier: Apache-2.0
// What the database is about at this moment. Asked once a second while it is looked at.

import { html } from '../html.js';
import { Charts } from './charts.js';
import { Cluster } from './cluster.js';
import { Conflicts } from './conflicts.js';
import { Replication } from './replication.js';
import { read } from './samples.js';
import { Sessions } from './sessions.js';
import { Held, SafeSnapshots } from './snapshots.js';
import { Archive, Log, Memory } from './upkeep.js';
import { useRepeated } from './watch.js';

export function NowPage() {
  useRepeated(read, 1000);
  return html`<section class="now" aria-label="Now"><h1 class="visually-hidden">Now</h1>
    <${Charts} />
    <div class="panels">
      <${Sessions} />
      <${SafeSnapshots} />
      <${Held} />
      <${Conflicts} />
      <${Log} />
      <${Memory} />
      <${Archive} />
      <${Replication} />
      <${Cluster} />
    </div>
    <p class="muted">The console's own questions are counted in these figures like everybody's.</p></section>`;
}
