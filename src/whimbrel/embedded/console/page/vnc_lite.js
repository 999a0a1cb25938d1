// Shows the screen of the guest to which the token in the page's address belongs.
import RFB from './novnc/core/rfb.js';

const status = document.getElementById('status');
const keys = document.getElementById('keys');
const asked = new URLSearchParams(location.search);
const path = asked.get('path') ?? '';
const token = new URLSearchParams(path.slice(path.indexOf('?') + 1)).get('token') ?? asked.get('token') ?? '';
const proxy = new URL('.', location.href);
proxy.protocol = location.protocol === 'https:' ? 'wss:' : 'ws:';
proxy.searchParams.set('token', token);

function show(state, text) {
    document.body.dataset.state = state;
    status.textContent = text;
    keys.disabled = state !== 'connected';
}

const screen = new RFB(document.getElementById('screen'), proxy.href, { wsProtocols: ['binary'] });
screen.scaleViewport = true;
screen.addEventListener('connect', () => show('connected', 'Connected'));
screen.addEventListener('desktopname', (event) => {
    document.title = event.detail.name;
    show('connected', `Connected to ${event.detail.name}`);
});
screen.addEventListener('disconnect', (event) => show('ended', event.detail.clean
    ? 'The connection has ended.'
    : 'No connection: the address has expired, or the server does not run where it did. Ask for a new one.'));
keys.addEventListener('click', () => { screen.sendCtrlAltDel(); screen.focus(); });
