"""A restore of databases: how the journal and the hosts compare, and the steps of it. For operators.

This is Whimbrel's own part of the API: /v2.1/whimbrel/restore.
"""

from typing import Any

import msgspec

from whimbrel.api.http.call import Call
from whimbrel.ports.stores.restores import CloudState
from whimbrel.restore import restore
from whimbrel.restore.restore import Survey


async def show(call: Call) -> Any:
    """Compare the journal with the hosts, and say whether all runs are held. Changes nothing."""
    return {"restore": _shown(await restore.survey(call.cloud, call.engine.book))}


async def begin(call: Call) -> Any:
    """Hold all runs, begin a new incarnation, and close the runs that the hosts have seen further. Repeatable."""
    await restore.begin(call.cloud, call.body["begin"]["because"])
    closed = await restore.close_overtaken(call.cloud, call.engine.book)
    found = await restore.survey(call.cloud, call.engine.book)
    return {"restore": {**_shown(found), "closed": [run.id for run in closed]}}


async def end(call: Call) -> Any:
    """Let all runs go on, if the hosts and the journal agree and the proof holds; else say why not."""
    force = call.body["end"]["force"]
    unsettled = await restore.end(call.cloud, call.engine.book, force=force)
    state = await call.cloud.restores.state()
    return {"restore": {"held": _held(state), "reasons": list(unsettled.reasons) if unsettled else []}}


def _shown(found: Survey) -> dict[str, Any]:
    return {
        "incarnation": found.state.incarnation,
        "held": _held(found.state),
        "is_settled": found.is_settled,
        "behind": [*found.behind, *map(str, found.older)],
        "runs": [
            {
                "id": check.run.id,
                "saga": check.run.saga,
                "server_id": check.run.subject,
                "at": check.run.at,
                "way": check.run.way,
                "state": check.run.state,
                "verdict": check.verdict,
                "because": check.because,
            }
            for check in found.runs
        ],
        "lost": [msgspec.to_builtins(lost) for lost in found.lost],
        "unreachable": dict(found.unreachable),
    }


def _held(state: CloudState) -> dict[str, Any] | None:
    return None if state.hold is None else msgspec.to_builtins(state.hold)
