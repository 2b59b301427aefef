// SPDX-License-Identifier: Apache-2.0
// Markup as tagged templates: there is no build step for our own modules.

import { h, htm } from './vendor/libraries.js';

export const html = htm.bind(h);
