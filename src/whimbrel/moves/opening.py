"""What a request writes down: the run on a server, and the user's action."""

from whimbrel.domain.ids import RunId
from whimbrel.domain.run import Action, Run
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Facts, Saga


def new_run(
    cloud: Cloud, engine: Engine, requester: Requester, server: Server, saga: Saga[Facts], facts: Facts
) -> Run[Facts]:
    """Give a run on a server, at its entrance, in the hands of this engine. It is not written down yet."""
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


def new_action(cloud: Cloud, requester: Requester, server: Server, name: str, run_id: RunId | None = None) -> Action:
    """Give the record of what was asked."""
    return Action(
        server_id=server.id,
        request_id=requester.request_id,
        name=name,
        project_id=requester.project_id,
        user_id=requester.user_id,
        run_id=run_id,
        started_at=cloud.clock.now(),
    )
