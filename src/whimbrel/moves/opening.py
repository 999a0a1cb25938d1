"""What a request writes down: the run on a server, and the user's action."""

from typing import NamedTuple

from whimbrel.domain.ids import ProjectId, RunId, ServerId
from whimbrel.domain.run import Action, Run
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Facts, Saga


class Subject(NamedTuple):
    """What a run is about, if it is not a server, or one without a record."""

    id: ServerId
    project_id: ProjectId


def new_run(
    cloud: Cloud, engine: Engine, requester: Requester, server: Server | Subject, saga: Saga[Facts], facts: Facts
) -> Run[Facts]:
    """Return a run at its entrance, leased to this engine. It is not in the journal yet."""
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
    """Return the record of a request."""
    return Action(
        server_id=server.id,
        request_id=requester.request_id,
        name=name,
        project_id=requester.project_id,
        user_id=requester.user_id,
        run_id=run_id,
        started_at=cloud.clock.now(),
    )
