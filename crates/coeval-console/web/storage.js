// SPDX-License-Identifier: Apache-2.0
// What the browser keeps between visits. Private windows and full disks refuse: then nothing is kept, and nothing fails.

const PREFIX = 'coeval.';

export function load(name, otherwise) {
  try {
    const text = localStorage.getItem(PREFIX + name);
    return text === null ? otherwise : JSON.parse(text);
  } catch {
    return otherwise;
  }
}

/** Whether it was kept. */
export function save(name, value) {
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}
