"""Records that a request writes: the run on a server, and the instance action."""

from typing import NamedTuple

from whimbrel.domain.ids import ProjectId, RunId, ServerId
from whimbrel.domain.run import Action, Run
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Facts, Saga


class Subject(NamedTuple):
    """The subject of a run that is no server, or a server without a record."""

    id: ServerId
    project_id: ProjectId


def new_run(
    cloud: Cloud,
    engine: Engine,
    requester: Requester,
    server: Server | Subject,
    saga: Saga[Facts],
    facts: Facts,
    oldest: int = 1,
) -> Run[Facts]:
    """Return a run at its entrance, leased to this engine. It is not saved in the journal.

    Its list is the newest version of `saga` that all processes know. oldest: the first that does what is requested.
    Raises: Conflict: not all processes know such a version.
    """
    saga = engine.newest(saga, oldest)
    return engine.leased(
        Run(
            id=RunId(cloud.ids.uuid()),
            saga=saga.name,
            version=saga.version,
            subject=server.id,
            project_id=server.project_id,
            user_id=requester.user_id,
            asker_project_id=requester.project_id,
            action=requester.request_id,
            at="",
            facts=facts,
        )
    )


def new_action(
    cloud: Cloud, requester: Requester, server: Server | Subject, name: str, run_id: RunId | None = None
) -> Action:
    return Action(
        server_id=server.id,
        request_id=requester.request_id,
        name=name,
        project_id=requester.project_id,
        user_id=requester.user_id,
        run_id=run_id,
        started_at=cloud.clock.now(),
    )
