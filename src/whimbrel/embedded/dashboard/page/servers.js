// Servers: a list, and one server with its actions, its moves and its history.
import { Badge, Facts, Mono, Table, html, lasting, moment } from './parts.js';
import { api, get, isAdmin, mayMigrate, session } from './session.js';

const flavorOf = (server) => server.flavor?.original_name ?? '';
const hostOf = (server) => server['OS-EXT-SRV-ATTR:host'];
const addressesOf = (server) => Object.values(server.addresses ?? {}).flat().map((each) => each.addr).join(', ');
const act = (server, body) => api('POST', `/servers/${server.id}/action`, body);

async function openConsole(server) {
  const body = { remote_console: { protocol: 'vnc', type: 'novnc' } };
  const { url } = (await api('POST', `/servers/${server.id}/remote-consoles`, body)).remote_console;
  open(url, '_blank', 'noopener');
  return { text: 'The console of the guest is in a new window.', href: url };
}

export const serversPage = {
  title: () => 'Servers',
  watches: (event) => event === 'change',
  load: async (_id, tools) => {
    const all = isAdmin() && tools.option('all projects', true) ? '?all_tenants=1' : '';
    const [{ servers }, { flavors }] = await Promise.all([get(`/servers/detail${all}`), get('/flavors/detail')]);
    return { servers, flavors };
  },
  more: (_data, tools) => isAdmin() && html`<div class="more"><label><input type="checkbox" checked=${tools.option('all projects', true)}
    onchange=${(event) => tools.choose('all projects', event.target.checked, true)} /> all projects</label></div>`,
  view: ({ servers, flavors }, tools, busy) => html`<section class="panel">
    <${Table} caption="Servers" rows=${servers} label=${(server) => server.id} sorted=${tools.option('servers', { name: 'Name' })}
      onsort=${(by) => tools.choose('servers', by)} empty="This project has no servers."
      columns=${[
        { name: 'Name', by: (server) => server.name, of: (server) => html`<a href=${`#/servers/${server.id}`}>${server.name}</a>` },
        { name: 'State', by: (server) => server.status, of: (server) => html`<${State} server=${server} />` },
        { name: 'Flavor', by: flavorOf, of: flavorOf },
        ...(isAdmin() ? [{ name: 'Host', by: hostOf, of: (server) => hostOf(server) ?? '-' }] : []),
        { name: 'Zone', by: (server) => server['OS-EXT-AZ:availability_zone'], of: (server) => server['OS-EXT-AZ:availability_zone'] },
        ...(servers.some(addressesOf) ? [{ name: 'Addresses', by: addressesOf, of: addressesOf }] : []),
        { name: 'Actions', of: (server) => html`<${Actions} server=${server} flavors=${flavors} tools=${tools} busy=${busy} />` },
      ]} /></section>`,
};

function State({ server }) {
  const task = server['OS-EXT-STS:task_state'];
  return html`<span><${Badge} word=${server.status} />${task && html` <span class="soft">${task}</span>`}</span>`;
}

function Actions({ server, flavors, tools, busy }) {
  const off = busy || Boolean(server['OS-EXT-STS:task_state']);
  const name = html`<span class="hidden"> ${server.name}</span>`;
  const button = (text, action, kind = '') => html`<button class=${kind} disabled=${off}
    onclick=${() => tools.act(`${text} of ${server.name}`, action)}>${text}${name}</button>`;
  if (server.status === 'VERIFY_RESIZE') {
    return html`<div class="actions">${button('Confirm', () => act(server, { confirmResize: null }), 'main')}
      ${button('Revert', () => act(server, { revertResize: null }))}</div>`;
  }
  const rests = server.status === 'ACTIVE' || server.status === 'SHUTOFF';
  const others = flavors.filter((flavor) => flavor.name !== flavorOf(server) && flavor.disk >= (server.flavor?.disk ?? 0));
  return html`<div class="actions">
    ${rests && html`<${Resize} server=${server} flavors=${others} off=${off} tools=${tools} />`}
    ${rests && mayMigrate() && button('Migrate', () => act(server, { migrate: null }))}
    ${server.status === 'ACTIVE' && mayMigrate() && button('Migrate live', () => act(server, { 'os-migrateLive': { host: null, block_migration: 'auto' } }))}
    ${server.status === 'ACTIVE' && button('Console', () => openConsole(server))}</div>`;
}

function Resize({ server, flavors, off, tools }) {
  const submit = (event) => {
    event.preventDefault();
    const flavorRef = new FormData(event.target).get('flavor');
    tools.act(`Resize of ${server.name}`, () => act(server, { resize: { flavorRef } }));
  };
  return html`<form onsubmit=${submit}><label><span class="hidden">New flavor of ${server.name}</span>
    <select name="flavor">${flavors.map((flavor) => html`<option key=${flavor.id} value=${flavor.id}>${flavor.name}</option>`)}</select></label>
    <button disabled=${off || !flavors.length}>Resize<span class="hidden"> ${server.name}</span></button></form>`;
}

export const serverPage = {
  title: (data) => data?.server?.name ?? 'Server',
  watches: (event, change, id) => event === 'change' && change.server_id === id,
  load: async (id, tools) => {
    const at = tools.option(`at ${id}`, null);
    const [server, { flavors }, { history }, then] = await Promise.all([
      get(`/servers/${id}`).then((read) => read.server, (error) => { if (error.status === 404) return null; throw error; }),
      get('/flavors/detail'),
      get(`/whimbrel/servers/${id}/history`),
      at === null ? null : get(`/whimbrel/servers/${id}/history?at=${new Date(at * 1000).toISOString()}`),
    ]);
    return { id, server, flavors, history, at, then: then?.history.state };
  },
  view: (data, tools, busy) => html`
    ${data.server ? html`<section class="panel"><${Facts} of=${factsOf(data.server)} /></section>
    <section class="panel"><h2>Actions</h2><${Actions} server=${data.server} flavors=${data.flavors} tools=${tools} busy=${busy} /></section>`
    : html`<p class="notice">This server is deleted. Its history remains.</p>`}
    <section class="panel"><h2>Moves and operations</h2><${Runs} entries=${data.history.entries} server=${data.server} /></section>
    <section class="panel"><h2>History</h2><${Past} ...${data} tools=${tools} /></section>`,
};

const factsOf = (server) => [
  ['State', html`<${State} server=${server} />`], ['Flavor', flavorOf(server)], ['Host', hostOf(server)],
  ['Zone', server['OS-EXT-AZ:availability_zone']], ['Addresses', addressesOf(server)],
  ['Fault', server.fault?.message], ['Project', server.tenant_id === session.project?.id ? session.project.name : server.tenant_id],
  ['Id', html`<${Mono} id=${server.id} />`],
];

function Runs({ entries, server }) {
  const open = server?.status === 'VERIFY_RESIZE' && !server['OS-EXT-STS:task_state'] ? 'parked' : 'open';
  const runs = new Map();
  for (const entry of entries) {
    if (!entry.move_id) continue;
    const run = runs.get(entry.move_id) ?? { id: entry.move_id, kind: entry.move_kind, began: entry.at, steps: 0, state: open };
    run.steps += entry.kind === 'step' || entry.kind === 'paid' ? 1 : 0;
    if (entry.kind === 'ended') Object.assign(run, { state: entry.what === 'undone' ? 'rolled back' : entry.what, took: entry.took_s });
    runs.set(entry.move_id, run);
  }
  return html`<${Table} caption="Moves and operations" rows=${[...runs.values()].reverse()} label=${(run) => run.id} columns=${[
    { name: 'What', of: (run) => html`<a href=${`#/moves/${run.id}`}>${run.kind}</a>` },
    { name: 'State', of: (run) => html`<${Badge} word=${run.state} />` },
    { name: 'Began', of: (run) => moment(run.began) },
    { name: 'Took', number: true, of: (run) => lasting(run.took) },
    { name: 'Steps taken', number: true, of: (run) => run.steps },
  ]} />`;
}

function Past({ id, history, at, then, tools }) {
  const times = [...new Set(history.entries.map((entry) => entry.at))];
  const shown = history.entries.filter((entry) => at === null || entry.at <= at);
  const slide = (event) => {
    const index = Number(event.target.value);
    tools.choose(`at ${id}`, index >= times.length ? null : times[index], true);
  };
  return html`
    <div class="slider"><label for="time">Until</label>
      <input id="time" type="range" min="0" max=${times.length} value=${at === null ? times.length : times.indexOf(at)} onchange=${slide}
        aria-valuetext=${at === null ? 'now' : moment(at)} />
      <output>${at === null ? 'now' : moment(at)}</output></div>
    ${at !== null && html`<${Facts} of=${[['State then', then?.vm_state ?? 'not there yet'], ['Flavor then', then?.flavor], ['Zone then', then?.availability_zone], ['Host then', then?.host]]} />`}
    <ol class="events" reversed>${[...shown].reverse().map((entry, index) => html`<li key=${shown.length - index}>
      <time datetime=${new Date(entry.at * 1000).toISOString()}>${moment(entry.at)}</time>
      <span class="soft">${entry.way === 'undo' ? 'undo' : entry.kind}</span>
      <span><code>${entry.what}</code> ${entry.outcome && entry.outcome !== 'done' ? html`<${Badge} word=${entry.outcome} />` : ''}</span>
      <span class="number soft">${lasting(entry.took_s)}</span>
      ${(entry.summary || entry.detail) && html`<span class="detail">${entry.summary ?? entry.detail}</span>`}</li>`)}</ol>`;
}
