// What pages are made of: templates, tables, words for states, times.
import { h } from './preact/dist/preact.mjs';
import htm from './htm/dist/htm.module.js';

export const html = htm.bind(h);

const GOOD = new Set(['ACTIVE', 'done', 'confirmed', 'up', 'ok', 'in', 'moved']);
const BUSY = new Set(['BUILD', 'RESIZE', 'MIGRATING', 'REBUILD', 'REBOOT', 'REVERT_RESIZE', 'open', 'warning', 'disabled', 'running', 'moving', 'aborting', 'stays']);
const WAITS = new Set(['VERIFY_RESIZE', 'parked', 'joined', 'planned', 'paused']);
const BAD = new Set(['ERROR', 'UNKNOWN', 'error', 'down', 'forced down', 'owed', 'stopped', 'failed']);

export function tone(word) {
  if (GOOD.has(word)) return 'good';
  if (BUSY.has(word)) return 'busy';
  if (WAITS.has(word)) return 'waits';
  return BAD.has(word) ? 'bad' : 'plain';
}

export const Badge = ({ word, as }) => html`<span class=${`badge ${as ?? tone(word)}`}>${word}</span>`;

export const moment = (seconds) => (seconds ? new Date(seconds * 1000).toLocaleString(undefined, {
  month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false,
}) : '');

export function lasting(seconds) {
  if (seconds === null || seconds === undefined) return '';
  if (seconds < 0.0005) return '0 s';
  if (seconds < 10) return `${seconds.toPrecision(2)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

export const stateOf = (move) => {
  if (move.stopped || move.problem) return 'stopped';
  return move.state === 'undone' ? 'rolled back' : move.state;
};

export const whereOf = (cell, host, crosses) => (host ? (crosses ? `${cell}/${host}` : host) : '-');

export const Mono = ({ id }) => html`<code title=${id}>${id}</code>`;

// columns: [{ name, of: (row) => content, by: (row) => value to sort by, number: bool }]
export function Table({ caption, columns, rows, sorted, onsort, empty, label }) {
  if (!rows.length) return html`<p class="empty">${empty ?? 'There are none.'}</p>`;
  const by = columns.find((column) => column.name === sorted?.name)?.by;
  const shown = by ? [...rows].sort((a, b) => compare(by(a), by(b)) * (sorted.down ? -1 : 1)) : rows;
  return html`<div class="scroll" role="region" aria-label=${caption} tabindex="0"><table>
    <caption class="hidden">${caption}</caption>
    <thead><tr>${columns.map((column) => html`<${Head} key=${column.name} column=${column} sorted=${sorted} onsort=${onsort} />`)}</tr></thead>
    <tbody>${shown.map((row) => html`<tr key=${label?.(row)}>${columns.map((column) => html`
      <td data-label=${column.name} class=${column.number ? 'number' : ''}>${column.of(row)}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

function Head({ column, sorted, onsort }) {
  const isBy = sorted?.name === column.name;
  const order = isBy ? (sorted.down ? 'descending' : 'ascending') : undefined;
  if (!column.by || !onsort) return html`<th scope="col" class=${column.number ? 'number' : ''}>${column.name}</th>`;
  return html`<th scope="col" aria-sort=${order} class=${column.number ? 'number' : ''}>
    <button class="sort" onclick=${() => onsort({ name: column.name, down: isBy ? !sorted.down : Boolean(column.number) })}>
      ${column.name}<span aria-hidden="true">${isBy ? (sorted.down ? ' ▼' : ' ▲') : ''}</span></button></th>`;
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return -1;
  if (b === null || b === undefined) return 1;
  return a < b ? -1 : 1;
}

export const Facts = ({ of }) => html`<dl class="facts">${of.filter(([, value]) => value !== null && value !== undefined && value !== '')
  .map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
