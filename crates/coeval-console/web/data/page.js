import { html } from '../html.js'; export function DataPage() { return html`<p>data</p>`; }
