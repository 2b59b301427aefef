import { html } from '../html.js'; export function NowPage() { return html`<p>now</p>`; }
