"""trigger_crash_dump: a non-maskable interrupt, on which the guest's operating system writes a dump of itself.

A repeated step may send it again, which changes nothing for a system that is dumping.
"""

from whimbrel.domain import server_states
from whimbrel.domain.operation_facts import Operation, OperationFacts
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga, Step
from whimbrel.servers import operation
from whimbrel.servers.lifecycle.create_image import settle_as_before

STATES = ("active", "paused", server_states.RESCUED, "error")
"""Nova permits it to a server in VERIFY_RESIZE too; here its move has the lock."""


async def inject_nmi(run: Operation, cloud: Cloud) -> None:
    await operation.agent(run, cloud).inject_nmi(run.order, operation.key(run))


TRIGGER_CRASH_DUMP = Saga(
    "trigger_crash_dump",
    1,
    OperationFacts,
    (
        Step(operation.lock, undo=operation.unlock, in_request=True),
        Step(inject_nmi, event="compute_trigger_crash_dump"),
        Step(settle_as_before),
    ),
)


async def trigger(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    """Raises: WrongState; Conflict; Unavailable."""
    await operation.accept(cloud, engine, requester, server, TRIGGER_CRASH_DUMP, "trigger_crash_dump", None, STATES)
