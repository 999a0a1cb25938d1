"""The restore of databases: the comparison of journal and hosts, and its steps. For operators.

This is Whimbrel's own part of the API: /v2.1/whimbrel/restore.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import asdict

from whimbrel.api.http.call import Call
from whimbrel.api.views.restores import Ending, EndingAnswer, Hold, LostRun, RunCheck, Survey, SurveyAnswer
from whimbrel.domain.run import Run
from whimbrel.ports.stores.restores import CloudState
from whimbrel.restore import restore


async def show(call: Call) -> SurveyAnswer:
    """Compare the journal with the hosts, and return whether all runs are held. Changes nothing."""
    return _shown(await restore.survey(call.cloud, call.engine.registry))


async def begin(call: Call) -> SurveyAnswer:
    """Hold all runs, begin a new incarnation, and close the runs that hosts have seen at a later step. Repeatable."""
    await restore.begin(call.cloud, call.body["begin"]["because"])
    closed = await restore.close_overtaken(call.cloud, call.engine.registry)
    return _shown(await restore.survey(call.cloud, call.engine.registry), closed)


async def end(call: Call) -> EndingAnswer:
    """Release all runs, if the hosts and the journal agree and the proof holds; else return the reasons."""
    force = call.body["end"]["force"]
    unsettled = await restore.end(call.cloud, call.engine.registry, force=force)
    state = await call.cloud.restores.state()
    return EndingAnswer(Ending(held=_held(state), reasons=list(unsettled.reasons) if unsettled else []))


def _shown(found: restore.Survey, closed: Sequence[Run] = ()) -> SurveyAnswer:
    return SurveyAnswer(
        Survey(
            incarnation=found.state.incarnation,
            held=_held(found.state),
            is_settled=found.is_settled,
            behind=[*found.behind, *map(str, (*found.older, *found.unclaimed))],
            runs=[_run(check) for check in found.runs],
            lost=msgspec.convert(found.lost, list[LostRun], from_attributes=True),
            unreachable=dict(found.unreachable),
            closed=[run.id for run in closed],
        )
    )


def _run(check: restore.RunCheck) -> RunCheck:
    known = {"server_id": check.run.subject, "verdict": check.verdict, "because": check.because}
    return msgspec.convert(asdict(check.run) | known, RunCheck)


def _held(state: CloudState) -> Hold | None:
    return msgspec.convert(state.hold, Hold | None, from_attributes=True)
