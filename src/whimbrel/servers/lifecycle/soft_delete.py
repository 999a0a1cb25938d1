"""Soft delete: the guest is switched off, and all that the server has is kept, until it is restored or reclaimed.

As in Nova, a soft-deleted server does not count in the quota of its project; a restore that would exceed it is refused.
"""

from whimbrel.domain import server_states
from whimbrel.domain.operation_facts import Operation, OperationFacts
from whimbrel.domain.server import Server
from whimbrel.moves import quota_checks
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.ports.stores.journal import QuotaUsage
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga, Step
from whimbrel.servers import operation
from whimbrel.servers.lifecycle.power import power_as_before, power_off, power_on, see_power

SOFT_DELETABLE = ("active", "paused", "suspended", "stopped", server_states.RESCUED, "shelved", "error")
"""States in which a server has a guest on a host, and no move waits for a verdict; others are deleted at once."""

NOT_COUNTED = QuotaUsage(vcpus=0, memory_mib=0)


async def stop_counting(run: Operation, cloud: Cloud) -> None:
    await cloud.directory.book(run.order, run.subject, NOT_COUNTED.vcpus, NOT_COUNTED.memory_mib)


async def count_again(run: Operation, cloud: Cloud) -> None:
    """Count the server, as the acceptance of the restore did: its quota was checked there."""
    flavor = (await operation.records(run, cloud).get(run.subject)).flavor
    await cloud.directory.book(run.order, run.subject, flavor.vcpus, flavor.memory_mib)


async def settle_soft_deleted(run: Operation, cloud: Cloud) -> None:
    await operation.settle(
        run,
        cloud,
        {
            "vm_state": server_states.after(run.facts.was, "soft-deleted"),
            "soft_deleted_at": cloud.clock.now(),
            "soft_deleted_from": run.facts.was,
        },
    )


async def settle_restored(run: Operation, cloud: Cloud) -> None:
    fields = {"vm_state": restored_state(run.facts), "soft_deleted_at": None, "soft_deleted_from": None}
    await operation.settle(run, cloud, fields)


def restored_state(facts: OperationFacts) -> str:
    """Return the vm_state after a restore: active, but a shelved or rescued server is that again."""
    return facts.before if facts.before in ("shelved", server_states.RESCUED) else "active"


def comes_back_on(facts: OperationFacts) -> bool:
    return restored_state(facts) != "shelved"


_EVENT = "compute_restore_instance"

SOFT_DELETE = Saga(
    "soft_delete",
    1,
    OperationFacts,
    undoable=(
        Step(operation.lock, undo=operation.unlock, in_request=True, after=(power_off,)),
        Step(see_power),
        Step(power_off, undo=power_as_before, event="compute_soft_delete_instance"),
    ),
    forward_only=(
        Step(stop_counting),
        Step(settle_soft_deleted),
    ),
)

RESTORE = Saga(
    "restore",
    1,
    OperationFacts,
    undoable=(
        Step(count_again, undo=stop_counting, accepted=True),
        Step(operation.lock, undo=operation.unlock, in_request=True, after=(power_on,)),
        Step(power_on, undo=power_off, only_if=comes_back_on, event=_EVENT),
        Step(settle_restored, event=_EVENT),
    ),
)


async def soft_delete(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    """Raises: WrongState; Conflict; Unavailable."""
    await operation.accept(cloud, engine, requester, server, SOFT_DELETE, "delete", "soft-deleting", SOFT_DELETABLE)


async def restore(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    """Raises: WrongState; Conflict; OverQuota; Unavailable."""
    counting = operation.Counting(
        usage=QuotaUsage(vcpus=server.flavor.vcpus, memory_mib=server.flavor.memory_mib),
        before=NOT_COUNTED,
        limits=await quota_checks.limits_of_directory(cloud, server.project_id),
    )
    await operation.accept(
        cloud, engine, requester, server, RESTORE, "restore", "restoring", (server_states.SOFT_DELETED,),
        counting=counting, before=server.soft_deleted_from,
    )  # fmt: skip
