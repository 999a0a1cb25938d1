// The fleet: every host by cell and zone, what it has, what is used, and the moves between them.
import { MoveLines, placeOf } from './move_lines.js';
import { Badge, Table, html, moment, stateOf, whereOf } from './parts.js';
import { get } from './session.js';

const USE_VERSION = '2.87'; // the last one in which hypervisors show what is used

export const fleetPage = {
  title: () => 'Fleet',
  watches: (event) => event === 'hosts' || event === 'change',
  load: async () => {
    const [{ hosts, unreachable }, { hypervisors }, { moves }] = await Promise.all([
      get('/whimbrel/hosts'), get('/os-hypervisors/detail', USE_VERSION), get('/whimbrel/moves?open=yes'),
    ]);
    const uses = new Map(hypervisors.map((each) => [each.hypervisor_hostname, each]));
    return { hosts, unreachable, uses, moves };
  },
  view: ({ hosts, unreachable, uses, moves }) => html`
    ${unreachable.map((cell) => html`<p key=${cell} class="notice bad">Cell ${cell} does not answer: its hosts are missing here.</p>`)}
    ${moves.length > 0 && html`<section class="panel"><h2>Moves under way</h2><${UnderWay} moves=${moves} /></section>`}
    <div class="fleet">${grouped(hosts, (host) => host.cell).map(([cell, inCell]) => html`<section key=${cell} class="panel cell"><h2>Cell ${cell}</h2>
      ${grouped(inCell, (host) => host.zone ?? 'no zone').map(([zone, inZone]) => html`<div key=${zone}><h3>Zone ${zone}</h3>
        <ul class="hosts">${inZone.map((host) => html`<${Host} key=${host.name} host=${host} use=${uses.get(host.name)} moves=${moves} />`)}</ul></div>`)}
    </section>`)}<${MoveLines} moves=${moves} /></div>`,
};

const UnderWay = ({ moves }) => html`<${Table} caption="Moves under way" rows=${moves} label=${(move) => move.id} columns=${[
  { name: 'Server', of: (move) => html`<a href=${`#/moves/${move.id}`}>${move.server_name ?? move.server_id}</a>` },
  { name: 'Move', of: (move) => move.saga },
  { name: 'From', of: (move) => whereOf(move.source_cell, move.source, move.cross_cell) },
  { name: 'To', of: (move) => whereOf(move.target_cell, move.target, move.cross_cell) },
  { name: 'State', of: (move) => html`<${Badge} word=${stateOf(move)} />` },
  { name: 'Stands at', of: (move) => html`<code>${move.at}</code>` },
  { name: 'Since', of: (move) => moment(move.parked_at ?? (move.since || move.created_at)) },
]} />`;

function grouped(rows, of) {
  const groups = new Map();
  for (const row of rows) groups.set(of(row), [...(groups.get(of(row)) ?? []), row]);
  return [...groups].sort(([a], [b]) => (a < b ? -1 : 1));
}

function words(host) {
  if (host.forced_down) return 'forced down';
  if (host.state !== 'up') return host.state;
  return host.enabled ? 'up' : 'disabled';
}

const SIDE = { up: '', disabled: 'busy', down: 'bad', 'forced down': 'bad', joined: 'waits' };

function Host({ host, use, moves }) {
  const state = words(host);
  const leaving = moves.filter((move) => move.source === host.name && move.source_cell === host.cell);
  const arriving = moves.filter((move) => move.target === host.name && move.target_cell === host.cell);
  return html`<li class=${`host ${SIDE[state] ?? ''}`} data-host=${placeOf(host.cell, host.name)}><h4>${host.name}<${Badge} word=${state} /></h4>
    <p>${host.servers === 1 ? '1 guest' : `${host.servers} guests`}</p>
    ${use && html`<div class="uses"><${Use} name="CPUs" used=${use.vcpus_used} of=${use.vcpus} />
      <${Use} name="Memory" used=${use.memory_mb_used} of=${use.memory_mb} amount=${gib} unit=" GiB" />
      <${Use} name="Disk" used=${use.local_gb_used} of=${use.local_gb} unit=" GiB" /></div>`}
    ${host.disabled_reason && !host.enabled && html`<p class="soft">${host.disabled_reason}</p>`}
    ${host.forced_down_reason && html`<p class="soft">${host.forced_down_reason}</p>`}
    ${leaving.map((move) => html`<p key=${`from ${move.id}`}><a href=${`#/moves/${move.id}`}>${move.server_name}</a> → ${move.target ?? '?'}</p>`)}
    ${arriving.map((move) => html`<p key=${`to ${move.id}`}><a href=${`#/moves/${move.id}`}>${move.server_name}</a> ← ${move.source ?? '?'}</p>`)}</li>`;
}

const gib = (mib) => Math.round(mib / 102.4) / 10;

function Use({ name, used, of, amount = String, unit = '' }) {
  const text = `${amount(used)} of ${amount(of)}${unit}`;
  return html`<div class="use"><span>${name}</span><meter min="0" max=${Math.max(of, 1)} high=${of * 0.9} value=${Math.min(used, of)} aria-label=${`${name}: ${text}`}>${text}</meter><span>${text}</span></div>`;
}
