// SPDX-License-Identifier: Apache-2.0
// How the key is called that goes with others in commands.

export const COMMAND = /Mac|iPhone|iPad/.test(navigator.platform) ? 'Cmd' : 'Ctrl';
