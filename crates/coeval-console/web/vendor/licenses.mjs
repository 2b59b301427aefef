// SPDX-License-Identifier: Apache-2.0
// Writes the licenses of the packages that are in the bundle, with their versions. Argument: esbuild's metafile.

import { existsSync, readFileSync, readdirSync } from 'node:fs';

const bundled = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const packages = new Set();
for (const path of Object.keys(bundled.inputs)) {
  const found = /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path);
  if (found) packages.add(found[1]);
}

const out = ['The libraries inside libraries.js and libraries.css, and their licenses.', ''];
for (const name of [...packages].sort()) {
  const folder = `node_modules/${name}`;
  const about = JSON.parse(readFileSync(`${folder}/package.json`, 'utf8'));
  const file = readdirSync(folder).find(entry => /^licen[cs]e/i.test(entry));
  if (!file || !existsSync(`${folder}/${file}`)) throw new Error(`${name} comes without its license`);
  const text = readFileSync(`${folder}/${file}`, 'utf8')
    .replaceAll('\r\n', '\n')
    .replace(/[ \t]+$/gm, '')
    .trim();
  out.push('-'.repeat(78), `${name} ${about.version} (${about.license})`, '', text, '');
}
process.stdout.write(out.join('\n'));
