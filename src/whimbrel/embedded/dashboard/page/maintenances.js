// Maintenances: hosts that are emptied, balanced or packed by a plan. A list with a form for a new plan, and one maintenance with its servers.
import { Badge, Facts, Table, html, lasting, moment } from './parts.js';
import { api, get } from './session.js';

const COUNTS = [['moving', 'under way'], ['failed', 'failed'], ['left', 'left otherwise'], ['stays', 'cannot move']];
// No host is in maintenance that is balanced or packed: what was asked for names them.
const hostsOf = (found) => found.hosts.join(', ') || found.target.replace(/^hosts? /, '');
const isOver = (found) => found.state === 'done' || found.state === 'aborted';

function progressOf({ progress }) {
  const words = [`${progress.moved} of ${progress.total} moved`, ...COUNTS.filter(([name]) => progress[name]).map(([name, word]) => `${progress[name]} ${word}`)];
  if (progress.remaining_s !== null) words.push(`about ${lasting(Math.max(1, progress.remaining_s))} left`);
  return words.join(', ');
}

const Progress = ({ of }) => html`<span class="progress"><meter min="0" max=${Math.max(of.progress.total, 1)} value=${of.progress.moved}
  aria-label="Servers moved">${of.progress.moved}</meter> ${progressOf(of)}</span>`;

export const maintenancesPage = {
  title: () => 'Maintenances',
  watches: (event) => event === 'hosts',
  load: async () => (await get('/whimbrel/maintenances')).maintenances,
  view: (maintenances, tools, busy) => html`
    <section class="panel"><h2>Plan one</h2><${PlanForm} tools=${tools} busy=${busy} /></section>
    <section class="panel"><${Table} caption="Maintenances" rows=${maintenances} label=${(each) => each.id}
      empty="No maintenance was planned yet." columns=${[
        { name: 'Name', of: (each) => html`<a href=${`#/maintenances/${each.id}`}>${each.name}</a>` },
        { name: 'State', of: (each) => html`<${Badge} word=${each.state} />` },
        { name: 'Progress', of: (each) => html`<${Progress} of=${each} />` },
        { name: 'Hosts', of: hostsOf },
        { name: 'Planned', of: (each) => moment(each.created_at) },
      ]} /></section>`,
};

function PlanForm({ tools, busy }) {
  const submit = (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    const hosts = given.get('hosts').split(/[\s,]+/).filter(Boolean);
    tools.act('Plan', async () => {
      const body = { maintenance: { hosts, allow_downtime: given.has('downtime') } };
      const { maintenance } = await api('POST', '/whimbrel/maintenances', body);
      location.hash = `#/maintenances/${maintenance.id}`;
      return 'The plan is saved. Nothing is moved, and no host is disabled, before it is started.';
    });
  };
  return html`<form class="plan actions" onsubmit=${submit}>
    <label>Hosts to empty <input name="hosts" required placeholder="n1, n2" autocomplete="off" /></label>
    <label><input type="checkbox" name="downtime" /> stop servers that cannot move live</label>
    <button class="main" disabled=${busy}>Plan</button></form>`;
}

export const maintenancePage = {
  title: (found) => (found ? `Maintenance: ${found.name}` : 'Maintenance'),
  watches: (event, change, _id, found) => event === 'hosts' || (event === 'change' && Boolean(found?.servers.some((each) => each.server_id === change.server_id))),
  load: async (id) => (await get(`/whimbrel/maintenances/${id}`)).maintenance,
  view: (found, tools, busy) => html`
    <section class="panel"><${Facts} of=${factsOf(found)} />
      ${found.message && html`<p class=${`notice ${found.state === 'done' ? '' : 'bad'}`}>${found.message}</p>`}
      ${!isOver(found) && html`<div class="actions verdict"><${Actions} found=${found} tools=${tools} busy=${busy} /></div>`}</section>
    <section class="panel"><h2>Servers, in their order</h2><${Table} caption="Servers of this maintenance" rows=${found.servers}
      label=${(each) => each.server_id} empty="These hosts have no servers." columns=${[
        { name: 'Server', of: (each) => html`<a href=${`#/servers/${each.server_id}`}>${each.name}</a>` },
        { name: 'From', of: (each) => each.source },
        { name: 'How', of: (each) => each.kind && `${each.kind}${each.downtime ? ', with downtime' : ''}` },
        { name: 'To', of: (each) => each.target },
        { name: 'State', of: (each) => html`<${Badge} word=${each.state} />` },
        { name: 'Move', of: (each) => each.move_id && html`<a href=${`#/moves/${each.move_id}`}>${each.move_id.slice(0, 8)}</a>` },
        { name: 'Why', of: (each) => [each.purpose, each.reason].filter(Boolean).join('; ') },
      ]} /></section>
    ${found.use?.length > 0 && html`<section class="panel"><h2>Use of the hosts, by the plan</h2><${UseTable} of=${found.use} /></section>`}`,
};

const share = (was, then) => (was === then ? was : `${was} to ${then}`);
const percent = (each, name) => (each.before[name] === null ? null
  : share(`${Math.round(each.before[name])} %`, `${Math.round(each.after[name])} %`));

const UseTable = ({ of: use }) => html`<${Table} caption="Use of the hosts before and after the plan" rows=${use} label=${(each) => each.host}
  columns=${[
    { name: 'Host', of: (each) => each.host },
    ...[['vcpus', 'VCPUs'], ['memory', 'Memory'], ['disk', 'Disk']].map(([name, title]) => ({ name: title, of: (each) => percent(each, name) })),
    { name: 'Servers', of: (each) => share(each.before.servers, each.after.servers) },
    { name: 'Why', of: (each) => each.reason },
  ]} />`;

function windowsOf({ windows, time_zone: zone, opens_at: opens, closes_at: closes }) {
  const next = opens ? `; not before ${moment(opens)}` : closes ? `; until ${moment(closes)}` : '';
  return `${windows.join(', ')} ${zone}${next}`;
}

const LIMITS = [['host', 'host'], ['group', 'server group'], ['zone', 'zone'], ['aggregate', 'aggregate'], ['project', 'project']];
const limitsOf = (budgets) => [`${budgets.at_once} at once`, ...LIMITS.filter(([name]) => budgets[`${name}_at_once`] !== null)
  .map(([name, word]) => `${budgets[`${name}_at_once`]} per ${word}`)].join(', ') + `; pauses after more than ${budgets.most_failed} failed`;

const factsOf = (found) => [
  ['State', html`<${Badge} word=${found.state} />`], ['Progress', html`<${Progress} of=${found} />`], ['Hosts', hostsOf(found)],
  ['Goal', found.goal === 'balance' ? `balance, within ${found.spread} %` : found.goal],
  ['Downtime', found.allow_downtime ? 'allowed' : 'not allowed'],
  ['If a server cannot move as planned', found.on_drift === 'pause' ? 'pause' : 'plan it anew'],
  ['Limits', limitsOf(found.budgets)],
  ['Moves start', found.windows.length > 0 ? windowsOf(found) : null],
  ['Planned', moment(found.created_at)], ['Started', moment(found.started_at)], ['Ended', moment(found.finished_at)],
];

function Actions({ found, tools, busy }) {
  const send = (text, body, kind = '') => html`<button class=${kind} disabled=${busy}
    onclick=${() => tools.act(`${text} ${found.name}`, () => api('POST', `/whimbrel/maintenances/${found.id}/action`, body))}>${text}</button>`;
  return html`
    ${found.state === 'planned' && send('Start', { start: null }, 'main')}
    ${found.state === 'running' && send('Pause', { pause: null })}
    ${found.state === 'paused' && send('Resume', { resume: {} }, 'main')}
    ${found.state === 'paused' && found.progress.failed + found.progress.stays > 0 && send('Resume, and try again what failed', { resume: { retry_failed: true } })}
    ${found.state !== 'aborting' && send('Abort', { abort: null })}`;
}
