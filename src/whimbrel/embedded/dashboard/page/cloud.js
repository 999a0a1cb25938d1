// The cloud: what is wrong now, whether its invariants hold, and its settings.
import { Badge, Facts, Table, html, lasting, moment } from './parts.js';
import { ProofTrend } from './proof_trend.js';
import { get } from './session.js';

let proof = null; // the last one of this page

export const cloudPage = {
  title: () => 'Cloud',
  watches: (event) => event === 'hosts' || event === 'change',
  load: async () => (await get('/whimbrel/status')).status,
  view: (status, tools, busy) => html`
    <section class="panel"><h2>Problems</h2><${Findings} of=${status.findings} /></section>
    <section class="panel"><h2>Overview</h2><${Facts} of=${[
      ...Object.entries(status.processes).map(([role, count]) => [`processes: whimbrel ${role}`, String(count)]),
      ...Object.entries(status.hosts).map(([cell, counts]) => [`hosts of cell ${cell}`, hostsOf(counts)]),
      ['moves and operations under way', String(status.runs_open)], ['waiting for a verdict', String(status.runs_parked)],
      ['undos outstanding', Object.values(status.debts).reduce((sum, runs) => sum + runs, 0) || null],
      ['services', Object.entries(status.services).map(([name, answers]) => (answers ? name : `${name} (no answer)`)).join(', ')],
      ['bus', status.bus === null ? null : status.bus || 'connected'],
      ['first certificate to expire', status.certificates[0] && `${status.certificates[0].name}, ${moment(status.certificates[0].expires_at)}`],
    ]} /></section>
    <section class="panel"><h2>Invariants</h2><${Books} last=${status.proof} proofs=${status.proofs} tools=${tools} busy=${busy} /></section>`,
};

function Findings({ of }) {
  if (!of.length) return html`<p><${Badge} word="ok" /> Nothing is wrong.</p>`;
  return html`<ul class="findings">${of.map((each, index) => html`<li key=${index}>
    <p><${Badge} word=${each.severity} /> <strong>${each.kind} ${each.subject}</strong>: ${each.text}</p>
    <p class="soft">${each.since ? `since ${moment(each.since)}, ` : ''}see <code>${each.command}</code></p></li>`)}</ul>`;
}

function hostsOf(counts) {
  if (!counts) return html`<${Badge} word="UNKNOWN" />`;
  const parts = [['up', counts.up], ['disabled', counts.disabled], ['down', counts.down], ['forced down', counts.forced_down]];
  return parts.filter(([, count]) => count).map(([word, count]) => `${count} ${word}`).join(', ') || 'none';
}

function Books({ last, proofs, tools, busy }) {
  const prove = () => tools.act('Proof', async () => {
    proof = (await get('/whimbrel/proof')).proof;
    return proof.holds ? 'All invariants hold.' : 'Some invariants do not hold, or could not be checked.';
  });
  return html`
    <p>${last ? html`Last proved ${moment(last.at)}: ${last.violations} violations, ${last.unseen} not checked.` : 'Not proved yet.'}</p>
    <${ProofTrend} proofs=${proofs ?? []} />
    <div class="actions"><button disabled=${busy} onclick=${prove}>${busy ? 'Proving ...' : 'Prove now'}</button></div>
    ${proof && html`<p>${proof.servers} servers on ${proof.hosts} hosts, in ${lasting(proof.took_s)}.</p>
      <${Table} caption="Invariants" rows=${proof.laws} label=${(each) => each.law} columns=${[
        { name: 'Invariant', of: (each) => html`<span><code>${each.law}</code> ${each.words}</span>` },
        { name: 'Facts checked', number: true, of: (each) => each.facts },
        { name: 'Violations', number: true, of: (each) => (each.violations ? html`<${Badge} word=${String(each.violations)} as="bad" />` : '0') },
      ]} />
      ${proof.violations.length > 0 && html`<ul>${proof.violations.map((each, index) => html`<li key=${index}>${each.sentence}</li>`)}</ul>`}
      ${proof.unseen.length > 0 && html`<h3>Not checked</h3><ul>${proof.unseen.map((each, index) => html`<li key=${index}>${each}</li>`)}</ul>`}`}`;
}

export const settingsPage = {
  title: () => 'Settings',
  watches: () => false,
  load: async () => (await get('/whimbrel/settings')).settings,
  view: (settings) => html`<section class="panel"><p class="soft">The rules of this process, as its settings have them. They are changed in its settings file.</p>
    <${Table} caption="Settings" rows=${flat(settings, '')} label=${([name]) => name} columns=${[
      { name: 'Setting', of: ([name]) => html`<code>${name}</code>` }, { name: 'Value', of: ([, value]) => html`<code>${JSON.stringify(value)}</code>` },
    ]} /></section>`,
};

const isTable = (value) => value !== null && typeof value === 'object' && !Array.isArray(value) && Object.keys(value).length > 0;
const flat = (value, above) => Object.entries(value).flatMap(([name, each]) => (isTable(each) ? flat(each, `${above}${name}.`) : [[above + name, each]]));
