"""The proof of the cloud's books: every law, how many facts were looked at, and what does not hold. For operators.

This is Whimbrel's own part of the API: /v2.1/whimbrel/proof.
"""

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from whimbrel.api.http.call import Call, Reply
from whimbrel.api.schemas.parameters import truth_of_word
from whimbrel.proof.proof import Progress, Proof, note, prove, proving
from whimbrel.proof.violation import Violation


async def show(call: Call) -> Any:
    """Prove the cloud now. progress: answer with a line for each step, the last of which is the proof."""
    if truth_of_word(call.value("progress") or "no"):
        return Reply(lines=_told(call))
    proof = await prove(call.cloud)
    await note(call.cloud, proof)
    return {"proof": shown(proof)}


async def _told(call: Call) -> AsyncIterator[Any]:
    async for step in proving(call.cloud):
        if isinstance(step, Progress):
            yield {"progress": {"stage": step.stage, "done": step.done, "total": step.total}}
        else:
            await note(call.cloud, step)
            yield {"proof": shown(step)}


def shown(proof: Proof) -> dict[str, Any]:
    """Show a proof. Times are seconds since 1970."""
    return {
        "holds": proof.holds,
        "began_at": proof.began_at,
        "took_s": proof.took_s,
        "servers": proof.servers,
        "hosts": proof.hosts,
        "laws": [
            {"law": each.law, "words": each.words, "facts": each.facts, "violations": each.violations}
            for each in proof.laws
        ],
        "violations": [violation(each) for each in proof.violations],
        "unseen": list(proof.unseen),
        "warnings": list(proof.warnings),
    }


def violation(one: Violation) -> dict[str, Any]:
    return {name: msgspec.to_builtins(getattr(one, name)) for name in one.__struct_fields__}
