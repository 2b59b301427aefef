// SPDX-License-Identifier: Apache-2.0
// Questions that are asked again and again, as long as the page can be seen.

import { useEffect, useState } from '../vendor/libraries.js';
import { ask } from '../server.js';

/** Calls `work` now and then every so many milliseconds after it has ended. */
export function useRepeated(work, every) {
  useEffect(() => {
    let timer = null;
    let isOver = false;
    const turn = async () => {
      if (document.visibilityState === 'visible') await work();
      if (!isOver) timer = setTimeout(turn, every);
    };
    turn();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, []);
}

/** The rows that a question last gave, `null` before, and why it was refused. `again` asks at once. */
export function useQuestion(sql, every) {
  const [answer, setAnswer] = useState({ rows: null, error: null });
  const again = async () => {
    try {
      setAnswer({ rows: await ask(sql), error: null });
    } catch (error) {
      setAnswer(before => ({ rows: before.rows, error }));
    }
  };
  useRepeated(again, every);
  return { ...answer, again };
}
