// The frame of the dashboard: one state, one drawing of it, one address for each page, one stream of changes.
import { render } from './preact/dist/preact.mjs';
import { cloudPage, settingsPage } from './cloud.js';
import { fleetPage } from './fleet.js';
import { maintenancePage, maintenancesPage } from './maintenances.js';
import { movePage, movesPage } from './moves.js';
import { html } from './parts.js';
import { serverPage, serversPage } from './servers.js';
import { follow, isAdmin, logIn, logOut, session, switchProject } from './session.js';

const PAGES = [
  { path: /^servers$/, page: serversPage, name: 'Servers', link: 'servers' },
  { path: /^servers\/([^/]+)$/, page: serverPage },
  { path: /^moves$/, page: movesPage, name: 'Moves', link: 'moves', admin: true },
  { path: /^moves\/([^/]+)$/, page: movePage },
  { path: /^fleet$/, page: fleetPage, name: 'Fleet', link: 'fleet', admin: true },
  { path: /^maintenances$/, page: maintenancesPage, name: 'Maintenances', link: 'maintenances', admin: true },
  { path: /^maintenances\/([^/]+)$/, page: maintenancePage },
  { path: /^cloud$/, page: cloudPage, name: 'Cloud', link: 'cloud', admin: true },
  { path: /^settings$/, page: settingsPage, name: 'Settings', link: 'settings', admin: true },
];
const SOON_MS = 150;

const root = document.getElementById('dashboard');
const state = { live: false, notice: null, data: null, options: {}, loaded: null, busy: false };
let stopFollowing = null;
let loading = 0;
let reloading = null;
let heard = '';

function draw() {
  render(session ? html`<${Frame} />` : html`<${Login} />`, root);
  const { line } = found();
  document.title = session ? `${titleOf(line)} - Whimbrel` : 'Log in - Whimbrel';
}

const titleOf = (line) => line.page.title(state.loaded === address() ? state.data : null);
const address = () => location.hash.replace(/^#\//, '') || 'servers';

function found() {
  for (const line of PAGES) {
    const match = line.path.exec(address());
    if (match) return { line, id: match[1] };
  }
  return { line: PAGES[0], id: undefined };
}

// What pages can do: keep options (sort orders, switches), act on the cloud, say something.
const tools = {
  option: (name, usual) => state.options[name] ?? usual,
  choose(name, value, reloads = false) {
    state.options[name] = value;
    draw();
    if (reloads) load();
  },
  async act(what, action) {
    state.busy = true;
    draw();
    try {
      const said = await action();
      const text = typeof said === 'string' ? said : said?.text; // or it is an answer of the API
      state.notice = { text: text ?? `${what}: accepted`, href: said?.href };
      await load();
    } catch (error) {
      complain(error);
    }
    state.busy = false;
    draw();
  },
};

function complain(error) {
  if (error.status === 401) return leave('The token has expired: log in again.');
  state.notice = { text: error.message, bad: true };
  return draw();
}

async function load() {
  const number = ++loading;
  const { line, id } = found();
  const at = address();
  try {
    const data = await line.page.load(id, tools);
    if (number !== loading) return;
    state.data = data;
    state.loaded = at;
    if (state.notice?.lost) state.notice = null;
  } catch (error) {
    if (number !== loading || !session) return;
    if (error.status === 0) {
      state.notice = { text: error.message, bad: true, lost: true };
      setTimeout(loadSoon, 2000);
    } else complain(error);
  }
  draw();
}

// Several changes that come together are one reading.
function loadSoon() {
  reloading ??= setTimeout(() => { reloading = null; if (session) load(); }, SOON_MS);
}

function told(event, data) {
  if (event === 'expired') {
    leave('The token has expired: log in again.');
    return;
  }
  const { line, id } = found();
  if (event === 'reload' || line.page.watches(event, data, id, state.data)) loadSoon();
}

function begin() {
  stopFollowing = follow(told, (live) => { state.live = live; draw(); });
  open();
}

function leave(text = null) {
  stopFollowing?.();
  stopFollowing = null;
  logOut();
  Object.assign(state, { data: null, loaded: null, live: false, notice: text && { text, bad: true } });
  draw();
}

function open() {
  state.notice = null;
  if (session) load();
  draw();
  const head = address() === heard ? null : document.querySelector('h1');
  heard = address();
  head?.focus();
}

function Frame() {
  const { line, id } = found();
  const shown = state.loaded === address() ? state.data : null;
  return html`
    <a class="skip" href=${location.hash || '#/servers'} onclick=${(event) => { event.preventDefault(); document.querySelector('h1').focus(); }}>Skip to the page</a>
    <header class="bar">
      <a class="brand" href="#/servers"><img src="dashboard/icon.svg" alt="" />Whimbrel</a>
      <nav aria-label="Pages"><ul>${PAGES.filter((each) => each.name && (!each.admin || isAdmin())).map((each) => html`
        <li key=${each.name}><a href=${`#/${each.link}`} aria-current=${address().split('/')[0] === each.link ? 'page' : undefined}>${each.name}</a></li>`)}</ul></nav>
      <div class="who">
        <span class=${`live ${state.live ? 'on' : ''}`} role="status">${state.live ? 'Live' : 'Connecting'}</span>
        <${Projects} />
        <span>${session.user}</span>
        <button onclick=${() => leave()}>Log out</button>
      </div>
    </header>
    <main>
      <div class="head"><h1 tabindex="-1">${titleOf(line)}</h1>${shown && line.page.more?.(shown, tools)}</div>
      <div aria-live="polite">${state.notice && html`<${Notice} />`}</div>
      ${shown ? line.page.view(shown, tools, state.busy, id) : !state.notice && html`<p class="empty">Loading ...</p>`}
    </main>`;
}

function Notice() {
  const { text, bad, href } = state.notice;
  return html`<div class=${`notice ${bad ? 'bad' : ''}`}><span>${text} ${href && html`<a href=${href} target="_blank" rel="noopener">Open it</a>`}</span>
    <button onclick=${() => { state.notice = null; draw(); }}>Dismiss</button></div>`;
}

function Projects() {
  if ((session.projects?.length ?? 0) < 2) return html`<span>${session.project?.name}</span>`;
  const choose = async (event) => {
    try {
      await switchProject(event.target.value);
      stopFollowing?.();
      location.hash = '#/servers';
      state.data = null;
      begin();
    } catch (error) { complain(error); }
  };
  return html`<label><span class="hidden">Project</span><select onchange=${choose}>${session.projects.map(({ id, name }) => html`
    <option key=${id} value=${id} selected=${id === session.project?.id}>${name}</option>`)}</select></label>`;
}

function Login() {
  const submit = async (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(event.target));
    state.busy = true;
    draw();
    try {
      await logIn(given);
      state.notice = null;
      begin();
    } catch (error) {
      state.notice = { text: error.status === 401 ? 'User name or password is wrong.' : error.message, bad: true };
    }
    state.busy = false;
    draw();
  };
  return html`<main class="login"><div class="panel">
    <form onsubmit=${submit}>
      <h1 tabindex="-1">Log in to Whimbrel</h1>
      <div role="alert">${state.notice && html`<p class="notice bad">${state.notice.text}</p>`}</div>
      <label>User name<input name="user" autocomplete="username" required autofocus /></label>
      <label>Password<input name="password" type="password" autocomplete="current-password" required /></label>
      <label>Project<small>Empty: the user's own</small><input name="project" autocomplete="off" /></label>
      <label>Domain<input name="domain" autocomplete="off" value="Default" /></label>
      <button class="main" disabled=${state.busy}>Log in</button>
    </form></div></main>`;
}

addEventListener('hashchange', open);
if (session) begin();
else draw();
