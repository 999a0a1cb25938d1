// Who is logged in, requests to the API, and the stream of changes. The token is kept for this tab only, in no cookie.
const KEPT = 'whimbrel';
const VERSION = '2.104';
const COMPUTE = 'compute/v2.1';
const IDENTITY = document.documentElement.dataset.identity;

export let session = JSON.parse(sessionStorage.getItem(KEPT) ?? 'null');

export class Refusal extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

function keep(found) {
  session = found;
  if (found) sessionStorage.setItem(KEPT, JSON.stringify(found));
  else sessionStorage.removeItem(KEPT);
}

export const isAdmin = () => session?.roles.includes('admin') ?? false;
export const mayMigrate = () => isAdmin() || (session?.roles.includes('manager') ?? false);

async function send(method, url, headers, body) {
  const sent = { accept: 'application/json', ...headers };
  if (body !== undefined) sent['content-type'] = 'application/json';
  let answer;
  try {
    answer = await fetch(url, {
      method, headers: sent, body: body === undefined ? undefined : JSON.stringify(body), credentials: 'omit',
    });
  } catch {
    throw new Refusal(0, 'The API does not answer. The page tries again.');
  }
  const text = await answer.text();
  let read = null;
  try { read = text ? JSON.parse(text) : null; } catch { /* no JSON: the status is what there is */ }
  if (!answer.ok) throw new Refusal(answer.status, sentence(read) ?? `The API answers ${answer.status}.`);
  return { read, headers: answer.headers };
}

// Every service of OpenStack wraps its errors in another name.
function sentence(read) {
  const wrapped = read && typeof read === 'object' ? Object.values(read)[0] : null;
  return wrapped?.message ?? null;
}

async function authenticate(identity, scope) {
  const auth = scope ? { identity, scope } : { identity };
  const { read, headers } = await send('POST', `${IDENTITY}/v3/auth/tokens`, {}, { auth });
  const token = read.token;
  return {
    token: headers.get('x-subject-token'), user: token.user.name, project: token.project ?? null,
    roles: (token.roles ?? []).map((role) => role.name),
  };
}

async function projectsOf(token) {
  return (await send('GET', `${IDENTITY}/v3/auth/projects`, { 'x-auth-token': token })).read.projects;
}

const projectScope = (id) => ({ project: { id } });
const tokenProof = (id) => ({ methods: ['token'], token: { id } });

export async function logIn({ user, password, domain, project }) {
  const named = { name: domain || 'Default' };
  const proof = { methods: ['password'], password: { user: { name: user, domain: named, password } } };
  let found = await authenticate(proof, project ? { project: { name: project, domain: named } } : undefined);
  const projects = await projectsOf(found.token);
  if (!found.project) {
    if (!projects.length) throw new Refusal(403, 'This user has a role in no project.');
    found = await authenticate(tokenProof(found.token), projectScope(projects[0].id));
  }
  keep({ ...found, projects: projects.map(({ id, name }) => ({ id, name })) });
}

export async function switchProject(id) {
  keep({ ...(await authenticate(tokenProof(session.token), projectScope(id))), projects: session.projects });
}

export function logOut() {
  const token = session?.token;
  keep(null);
  if (token) {
    send('DELETE', `${IDENTITY}/v3/auth/tokens`, { 'x-auth-token': token, 'x-subject-token': token }).catch(() => {});
  }
}

export async function api(method, path, body, version = VERSION) {
  const headers = { 'x-auth-token': session.token, 'openstack-api-version': `compute ${version}` };
  return (await send(method, COMPUTE + path, headers, body)).read;
}

export const get = (path, version) => api('GET', path, undefined, version);

// Follow the stream of changes until `stop` is called. told(event, data); connected(true | false).
export function follow(told, connected) {
  const ending = new AbortController();
  run();
  return () => ending.abort();

  async function run() {
    let pause = 500;
    while (!ending.signal.aborted) {
      try {
        const answer = await fetch('dashboard/changes', {
          headers: { 'x-auth-token': session?.token ?? '', accept: 'text/event-stream' },
          credentials: 'omit', cache: 'no-store', signal: ending.signal,
        });
        if (answer.status === 401) return told('expired', {});
        if (answer.ok) {
          pause = 500;
          connected(true);
          await read(answer.body.pipeThrough(new TextDecoderStream()).getReader());
        }
      } catch { /* broken: connect again */ }
      if (ending.signal.aborted) return undefined;
      connected(false);
      await new Promise((done) => { setTimeout(done, pause); });
      pause = Math.min(pause * 2, 5000);
    }
    return undefined;
  }

  async function read(reader) {
    let rest = '';
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const events = (rest + value).split('\n\n');
      rest = events.pop();
      for (const each of events) {
        const name = /^event: (.*)$/m.exec(each)?.[1];
        const data = /^data: (.*)$/m.exec(each)?.[1];
        if (name) told(name, JSON.parse(data ?? '{}'));
      }
    }
  }
}
