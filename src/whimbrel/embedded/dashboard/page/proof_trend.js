// The trend of proofs: a column for each, as high as the number of its violations, and the same as a table.
import { Badge, Table, html, moment } from './parts.js';

const STEP = 12;
const WIDEST = 8;
const HIGHEST = 60;
const LEAST = 4; // a proof that holds is seen too

const wordOf = (proof) => {
  if (proof.violations) return 'violated';
  return proof.unseen ? 'incomplete' : 'holds';
};
const TONES = { holds: 'good', incomplete: 'busy', violated: 'bad' };

// proofs: the newest first.
export function ProofTrend({ proofs }) {
  if (proofs.length < 2) return null;
  const most = Math.max(...proofs.map((proof) => proof.violations));
  const width = Math.max(proofs.length, 20) * STEP;
  return html`<figure class="trend"><figcaption>${sentence(proofs, most)}</figcaption>
    <svg width=${width} viewBox=${`0 0 ${width} ${HIGHEST + LEAST}`} preserveAspectRatio="none" role="img" aria-label=${sentence(proofs, most)}>
      ${[...proofs].reverse().map((proof, index) => {
        const height = LEAST + (most ? (HIGHEST * proof.violations) / most : 0);
        return html`<rect key=${proof.at} class=${TONES[wordOf(proof)]} x=${index * STEP} y=${HIGHEST + LEAST - height} width=${WIDEST} height=${height}>
          <title>${`${moment(proof.at)}: ${proof.violations} violations, ${proof.unseen} not checked`}</title></rect>`;
      })}</svg>
    <details><summary>The proofs as a table</summary><${Table} caption="Proofs" rows=${proofs} label=${(proof) => proof.at} columns=${[
      { name: 'Proved', of: (proof) => moment(proof.at) },
      { name: 'Result', of: (proof) => html`<${Badge} word=${wordOf(proof)} as=${TONES[wordOf(proof)]} />` },
      { name: 'Violations', number: true, of: (proof) => String(proof.violations) },
      { name: 'Not checked', number: true, of: (proof) => String(proof.unseen) },
    ]} /></details></figure>`;
}

function sentence(proofs, most) {
  const violated = proofs.filter((proof) => proof.violations).length;
  const since = `The last ${proofs.length} proofs, since ${moment(proofs.at(-1).at)}`;
  return violated ? `${since}: ${violated} found violations, at most ${most}.` : `${since}: none found a violation.`;
}
