// Lines between the hosts of the fleet, one for each move under way. They run in the gaps between the hosts, over no text.
import { Component, createRef } from './preact/dist/preact.mjs';
import { html, stateOf } from './parts.js';

const COLUMN_GAP = 8; // half of the gap between two hosts, as the style has it
const ROW_GAP = 12;
const BEND = 6;
const LANES = [0, 1, -1, 2, -2, 3, -3]; // lines of one gap are beside each other
const ROW_LANE = 3;
const COLUMN_LANE = 2;
const END = 16; // so far apart they leave and reach a host

export const placeOf = (cell, host) => `${cell}/${host}`;

function toneOf(move) {
  if (stateOf(move) === 'stopped') return 'bad';
  if (move.state === 'parked') return 'waits';
  return move.way === 'forward' ? 'busy' : 'back';
}

// What is not in this drawing is in the list of the page: a move within one host, or one whose target is not chosen.
export class MoveLines extends Component {
  drawing = createRef();

  componentDidMount() {
    this.resized = new ResizeObserver(() => this.measure());
    this.resized.observe(this.drawing.current.parentNode);
    this.measure();
  }

  componentDidUpdate() { this.measure(); }

  componentWillUnmount() { this.resized.disconnect(); }

  measure() {
    const fleet = this.drawing.current.parentNode;
    const from = fleet.getBoundingClientRect();
    const boxes = new Map([...fleet.querySelectorAll('[data-host]')].map((each) => {
      const { left, right, top, bottom } = each.getBoundingClientRect();
      return [each.dataset.host, { left: left - from.left, right: right - from.left, top: top - from.top, bottom: bottom - from.top }];
    }));
    const lines = this.props.moves.flatMap((move) => {
      const ends = [placeOf(move.source_cell, move.source), placeOf(move.target_cell, move.target)];
      const [a, b] = (toneOf(move) === 'back' ? ends.reverse() : ends).map((place) => boxes.get(place));
      return a && b && a !== b ? [{ move, a, b }] : [];
    }).map(({ move, a, b }, index) => ({
      id: move.id, tone: toneOf(move), name: `${move.server_name}: ${move.source} → ${move.target}`, path: bent(corners(a, b, LANES[index % LANES.length])),
    }));
    const drawn = JSON.stringify(lines);
    if (drawn !== this.drawn) {
      this.drawn = drawn;
      this.setState({ lines });
    }
  }

  render(_, { lines = [] }) {
    return html`<svg ref=${this.drawing} class="lines" role="img" aria-label=${`${lines.length} lines between hosts, for moves of the list`}>
      <defs>${['busy', 'back', 'waits', 'bad'].map((tone) => html`<marker key=${tone} id=${`head-${tone}`} class=${tone} viewBox="0 0 8 8"
        refX="7" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto"><path d="M0,0 L8,4 L0,8 Z" /></marker>`)}</defs>
      ${lines.map(({ id, tone, name, path }) => html`<path key=${id} class=${tone} d=${path} marker-end=${`url(#head-${tone})`}><title>${name}</title></path>`)}</svg>`;
  }
}

// The corners of a line from one host to another: out of it, along the gap, and for a distant row through a gap of columns.
function corners(a, b, lane) {
  const aside = lane * ROW_LANE;
  const [from, to] = [a, b].map((box) => (box.left + box.right) / 2 + lane * END);
  const down = b.top >= a.bottom;
  const beside = Math.abs(a.top - b.top) < 1;
  const start = down ? a.bottom : a.top;
  const end = down || beside ? b.top : b.bottom;
  const out = start + (down ? ROW_GAP : -ROW_GAP) + aside;
  const into = end + (down || beside ? -ROW_GAP : ROW_GAP) + aside;
  if (Math.abs(out - into) < ROW_GAP) return [[from, start], [from, out], [to, out], [to, end]];
  const column = (b.left > a.left ? a.right + COLUMN_GAP : a.left - COLUMN_GAP) + lane * COLUMN_LANE;
  return [[from, start], [from, out], [column, out], [column, into], [to, into], [to, end]];
}

function bent(points) {
  const between = points.slice(1, -1).map(([x, y], index) => {
    const [before, after] = [points[index], points[index + 2]].map(([toX, toY]) => {
      const length = Math.hypot(toX - x, toY - y) || 1;
      const part = Math.min(BEND, length / 2) / length;
      return `${round(x + (toX - x) * part)},${round(y + (toY - y) * part)}`;
    });
    return `L${before} Q${round(x)},${round(y)} ${after}`;
  });
  const [first, last] = [points[0], points.at(-1)].map((point) => point.map(round).join(','));
  return `M${first} ${between.join(' ')} L${last}`;
}

const round = (number) => Math.round(number * 10) / 10;
