// SPDX-License-Identifier: Apache-2.0
// The form that comes first, and again when the login has ended.

import { useState } from './vendor/libraries.js';
import { html } from './html.js';
import { logIn } from './server.js';
import { load, save } from './storage.js';
import { Failure } from './failure.js';

export function SignIn() {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const [known] = useState(() => load('login', { user: '', database: '', readOnly: false }));
  const submit = async event => {
    event.preventDefault();
    const fields = event.target.elements;
    const { value: user } = fields.user;
    const { value: database } = fields.database;
    const { checked: readOnly } = fields.readOnly;
    setBusy(true);
    setError(null);
    try {
      await logIn({ user, password: fields.password.value, ...(database && { database }), readOnly });
      save('login', { user, database, readOnly });
    } catch (failure) {
      setError(failure);
      setBusy(false);
      fields.password.select();
    }
  };
  return html`<main class="sign-in"><form onSubmit=${submit} aria-labelledby="sign-in-title">
    <h1 id="sign-in-title">Coeval console</h1>
    <p class="muted">A role of the database and its password, as for psql. Any name will do where no role has a password.</p>
    <label>User <input name="user" autocomplete="username" required autofocus=${known.user === ''}
      spellcheck=${false} autocapitalize="none" defaultValue=${known.user} /></label>
    <label>Password <input name="password" type="password" autocomplete="current-password"
      autofocus=${known.user !== ''} /></label>
    <label>Database <input name="database" autocomplete="off" spellcheck=${false} autocapitalize="none"
      placeholder="named like the user" defaultValue=${known.database} /></label>
    <label class="check"><input name="readOnly" type="checkbox" defaultChecked=${known.readOnly} />
      <span>Read only <small>statements that change something are refused</small></span></label>
    <${Failure} error=${error} />
    <button type="submit" class="primary" disabled=${busy}>${busy ? 'Logging in' : 'Log in'}</button>
  </form></main>`;
}
