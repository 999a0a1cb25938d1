// Shows the serial line of the guest to which the token in the page's address belongs, and sends what is typed.
import { Terminal } from './xterm/lib/xterm.mjs';

const status = document.getElementById('status');
const proxy = new URL('.', location.href);
proxy.protocol = location.protocol === 'https:' ? 'wss:' : 'ws:';
proxy.searchParams.set('token', new URLSearchParams(location.search).get('token') ?? '');

const terminal = new Terminal({ cols: 80, rows: 24, cursorBlink: true, scrollback: 5000 });  // a serial line has no size
const line = new WebSocket(proxy.href, ['binary']);
let isConnected = false;

function show(state, text) {
    document.body.dataset.state = state;
    status.textContent = text;
}

function send(bytes) {
    if (line.readyState === WebSocket.OPEN) line.send(bytes);
}

terminal.open(document.getElementById('terminal'));
terminal.onData((text) => send(new TextEncoder().encode(text)));
terminal.onBinary((text) => send(Uint8Array.from(text, (each) => each.charCodeAt(0))));
line.binaryType = 'arraybuffer';
line.addEventListener('open', () => {
    isConnected = true;
    show('connected', 'Connected. A guest may write nothing until a key is pressed.');
    terminal.focus();
});
line.addEventListener('message', (event) => terminal.write(new Uint8Array(event.data)));
line.addEventListener('close', () => show('ended', isConnected
    ? 'The connection has ended.'
    : 'No connection: the address has expired, or the server does not run where it did. Ask for a new one.'));
