"""The proof of the cloud: every invariant, the number of facts checked, and the violations. For operators.

This is Whimbrel's own part of the API: /v2.1/whimbrel/proof.
"""

from collections.abc import AsyncIterator

import msgspec

from whimbrel.api.http.call import Call
from whimbrel.api.schemas.parameters import truth_of_word
from whimbrel.api.views import proof as views
from whimbrel.api.views.proof import ProofAnswer, ProofLine
from whimbrel.http.reply import Reply
from whimbrel.proof.proof import Progress, Proof, note, prove, proving
from whimbrel.proof.violation import Violation


async def show(call: Call) -> ProofAnswer | Reply:
    """Prove the cloud now. progress: answer with a line for each step; the last line is the proof."""
    if truth_of_word(call.value("progress") or "no"):
        return Reply(lines=_progress_lines(call))
    proof = await prove(call.cloud)
    await note(call.cloud, proof)
    return ProofAnswer(shown(proof))


async def _progress_lines(call: Call) -> AsyncIterator[ProofLine]:
    async for step in proving(call.cloud):
        if isinstance(step, Progress):
            yield ProofLine(progress=msgspec.convert(step, views.Progress, from_attributes=True))
        else:
            await note(call.cloud, step)
            yield ProofLine(proof=shown(step))


def shown(proof: Proof) -> views.Proof:
    return msgspec.convert(proof, views.Proof, from_attributes=True)


def violation(one: Violation) -> views.Violation:
    return msgspec.convert(one, views.Violation, from_attributes=True)
