// Moves: a list, and one move as a ladder with each undo beside its step, and why its host was chosen.
import { Badge, Facts, Table, html, lasting, moment, stateOf, whereOf } from './parts.js';
import { api, get, isAdmin } from './session.js';

export const movesPage = {
  title: () => 'Moves',
  watches: (event) => event === 'change',
  load: async () => (await get('/whimbrel/moves?limit=100')).moves,
  view: (moves, tools) => html`<section class="panel"><${Table} caption="Moves" rows=${moves} label=${(move) => move.id}
    sorted=${tools.option('moves', { name: 'Began', down: true })} onsort=${(by) => tools.choose('moves', by)} empty="No server was moved yet." columns=${[
      { name: 'Move', by: (move) => move.saga, of: (move) => html`<a href=${`#/moves/${move.id}`}>${move.saga}</a>` },
      { name: 'Server', by: (move) => move.server_name, of: (move) => html`<a href=${`#/servers/${move.server_id}`}>${move.server_name ?? move.server_id}</a>` },
      { name: 'From', by: (move) => move.source, of: (move) => whereOf(move.source_cell, move.source, move.cross_cell) },
      { name: 'To', by: (move) => move.target, of: (move) => whereOf(move.target_cell, move.target, move.cross_cell) },
      { name: 'State', by: stateOf, of: (move) => html`<${Badge} word=${stateOf(move)} />` },
      { name: 'Stands at', by: (move) => move.at, of: (move) => (move.finished_at ? move.turned ?? move.status : html`<code>${move.at}</code>`) },
      { name: 'Owes', number: true, by: (move) => move.debts.length, of: (move) => move.debts.length || '' },
      { name: 'Began', by: (move) => move.created_at, of: (move) => moment(move.created_at) },
    ]} /></section>`,
};

export const movePage = {
  title: (data) => (data ? `${data.ladder.saga} of ${data.ladder.server_name ?? data.ladder.server_id}` : 'Move'),
  watches: (event, change, id) => event === 'change' && change.move_id === id,
  load: async (id) => {
    const [{ ladder }, { decisions }, move] = await Promise.all([
      get(`/whimbrel/moves/${id}/ladder`),
      get(`/whimbrel/moves/${id}/decisions`),
      isAdmin() ? get(`/whimbrel/moves/${id}`).then((read) => read.move) : null,
    ]);
    const guests = move && !move.finished_at ? (await get(`/whimbrel/moves/${id}/guests`)).guests : [];
    return { ladder, decisions, move, guests };
  },
  view: ({ ladder, decisions, move, guests }, tools, busy) => html`
    <section class="panel"><${Facts} of=${factsOf(ladder, move)} />
      ${guests.length > 0 && html`<${Halves} guests=${guests} />`}
      ${ladder.state === 'parked' && html`<div class="actions verdict"><${Verdict} ladder=${ladder} tools=${tools} busy=${busy} /></div>`}
      ${isAdmin() && !ladder.finished_at && ladder.state === 'open' && html`<div class="actions verdict"><${Nudge} ladder=${ladder} tools=${tools} busy=${busy} /></div>`}
      ${move?.problem && html`<p class="notice bad">It stopped at a bug; retry it when the bug is fixed.</p>`}
      ${move?.message && ladder.state !== 'done' && html`<p class=${`notice ${ladder.finished_at ? '' : 'bad'}`}>${move.message}</p>`}</section>
    <div class="two"><section class="panel"><h2>Steps, each with its undo</h2><${Ladder} ladder=${ladder} /></section>
    <section class="panel"><h2>Why this host</h2>${decisions.length
      ? decisions.map((decision, index) => html`<${Decision} key=${index} decision=${decision} tools=${tools} />`)
      : html`<p class="empty">No host was chosen.</p>`}</section></div>`,
};

const factsOf = (ladder, move) => [
  ['State', html`<${Badge} word=${stateOf(ladder)} />`],
  ['Server', html`<a href=${`#/servers/${ladder.server_id}`}>${ladder.server_name ?? ladder.server_id}</a>`],
  ['From', move && whereOf(move.source_cell, move.source, move.cross_cell)],
  ['To', move && whereOf(move.target_cell, move.target, move.cross_cell)],
  ['Flavor', ladder.new_flavor && (ladder.old_flavor && ladder.old_flavor !== ladder.new_flavor ? `${ladder.old_flavor} → ${ladder.new_flavor}` : ladder.new_flavor)],
  ['Direction', ladder.finished_at ? null : ladder.way],
  ['Turned back', ladder.turned], ['Verdict', ladder.verdict],
  ['Tries of this step', ladder.tries || null], ['Owed', ladder.debts.join(', ')],
  ['Conductor', move && !ladder.finished_at ? move.owner ?? 'none now' : null], ['Epoch', move?.epoch],
  ['Began', moment(ladder.created_at)], ['Took', ladder.finished_at && lasting(ladder.finished_at - ladder.created_at)],
  ['Copied', move?.disk_copy && `${move.disk_copy.percent} % of disk ${move.disk_copy.disk}`],
  ['Copied', move?.transfer && `${Math.round(100 * move.transfer.memory_processed / (move.transfer.memory_total || 1))} % of the memory`],
];

// What each of the two hosts has of the guest.
function Halves({ guests }) {
  return html`<ul class="halves" aria-label="The guest on its hosts">${guests.map((guest) => html`<li key=${guest.side} class="rung" data-side=${guest.side}>
    <p class="top"><span>${guest.side} <b>${guest.host}</b></span><${Badge} word=${guestState(guest)} as=${guest.answers ? POWERS[guest.power] ?? 'plain' : 'bad'} /></p>
    <p class="about">${guest.disks.length ? `complete disks: ${guest.disks.join(', ')}` : guest.power ? 'no complete disk' : ''}</p></li>`)}</ul>`;
}

const POWERS = { running: 'good', paused: 'waits', incoming: 'busy' };
const guestState = (guest) => (guest.answers ? guest.power ?? 'no guest' : 'no answer');

function Verdict({ ladder, tools, busy }) {
  const give = (word, body) => html`<button class=${word === 'Confirm' ? 'main' : ''} disabled=${busy}
    onclick=${() => tools.act(`${word} of this move`, () => api('POST', `/servers/${ladder.server_id}/action`, body))}>${word}</button>`;
  return html`<span>It waits for a verdict.</span>${give('Confirm', { confirmResize: null })}${give('Revert', { revertResize: null })}`;
}

function Nudge({ ladder, tools, busy }) {
  const send = (text, body) => html`<button disabled=${busy}
    onclick=${() => tools.act(text, () => api('POST', `/whimbrel/moves/${ladder.id}/action`, body))}>${text}</button>`;
  return html`${ladder.tries || ladder.stopped ? send('Retry now', { retry: null }) : ''}
    ${ladder.way === 'forward' && send('Roll back', { turn_back: null })}`;
}

const DO = { done: 'done', now: 'now', parked: 'waits for a verdict', ahead: 'to come', refused: 'refused', undone: 'undone', never: 'not taken' };
const UNDO = { unneeded: 'not needed yet', ready: 'undo is ready', done: 'undone', now: 'undoing now', ahead: 'to be undone', owed: 'undo is owed', past: 'not undone any more' };

function Ladder({ ladder }) {
  if (!ladder.steps.length) return html`<p class="empty">This run is of a newer program.</p>`;
  const pivot = ladder.steps.find((step) => step.forward_only)?.step;
  return html`<ol class="ladder">${ladder.steps.map((step) => html`<li key=${step.step} class=${step.step === pivot ? 'pivot' : ''}
      aria-current=${['now', 'parked'].includes(step.do_state) || step.undo_state === 'now' ? 'step' : undefined}>
    <div class=${`rung ${step.do_state}`} data-step=${step.step} data-state=${step.do_state}>
      <p class="top"><code>${step.step}</code><${Badge} word=${DO[step.do_state]} as=${TONES[step.do_state]} /><span class="took">${lasting(step.took_s)}</span></p>
      <p class="about">${step.about}</p></div>
    ${step.undo && !(step.undo_state === 'none') ? html`<div class=${`rung undo ${step.undo_state}`}>
      <p class="top"><code>${step.undo}</code><${Badge} word=${UNDO[step.undo_state]} as=${TONES[step.undo_state]} /><span class="took">${lasting(step.undo_took_s)}</span></p>
      <p class="about">${step.undo_about}</p></div>` : html`<div class="rung blank"></div>`}</li>`)}</ol>`;
}

const TONES = { done: 'good', now: 'busy', parked: 'waits', owed: 'bad', refused: 'bad' };

function Decision({ decision, tools }) {
  const weighers = [...new Set(decision.considered.flatMap((host) => Object.entries(host.weights).filter(([, weight]) => weight).map(([name]) => name)))];
  return html`<div class="decision"><p>${decision.summary}</p>${decision.change && html`<p class="soft">${decision.change}</p>`}
    ${decision.considered.length > 0 && html`<${Table} caption="Hosts of this choice" rows=${decision.considered} label=${(host) => host.host}
      sorted=${tools.option('hosts', { name: 'Weight', down: true })} onsort=${(by) => tools.choose('hosts', by)} columns=${[
        { name: 'Host', by: (host) => host.host, of: (host) => html`${host.host} ${decision.chosen[0] === host.host ? html`<${Badge} word="chosen" as="good" />` : ''}` },
        { name: 'Weight', number: true, by: (host) => host.weight, of: (host) => round(host.weight) },
        { name: 'Left out because', by: (host) => host.reason?.words, of: (host) => host.reason && html`<span class="sentence">${host.reason.words}</span>` },
        ...weighers.map((name) => ({ name, number: true, by: (host) => host.weights[name], of: (host) => round(host.weights[name]) })),
      ]} />`}</div>`;
}

const round = (value) => (value === null || value === undefined ? '' : String(Math.round(value * 1000) / 1000));
