"""The engine parts of a cloud: the sagas, and the functions on the servers of runs."""

from collections.abc import Callable, Collection
from random import Random

from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.moves.steps import record
from whimbrel.moves.steps.lease_check import check_lock, hold_all
from whimbrel.ports.cloud import Cloud
from whimbrel.saga.parts import EngineParts
from whimbrel.saga.step import SagaRegistry


def engine_parts(
    cloud: Cloud,
    name: str,
    rng: Random,
    registry: SagaRegistry = SAGAS,
    known_to_all: Callable[[str], Collection[int] | None] = lambda saga: None,
    heeded_by_all: Callable[[str], bool] = lambda fact: True,
) -> EngineParts:
    """Return the parts of an engine without a conductor. name: the owner of its leases."""
    return EngineParts(
        journal=cloud.journal,
        registry=registry,
        world=cloud,
        clock=cloud.clock,
        rng=rng,
        name=name,
        lease_s=cloud.rules.lease_s,
        step_timeout_s=cloud.rules.step_timeout_s,
        show=lambda run, task_state: record.show(run, task_state, cloud),
        check_lock=lambda run: check_lock(run, cloud),
        hold=lambda because: hold_all(because, cloud),
        known_to_all=known_to_all,
        heeded_by_all=heeded_by_all,
        took_step=cloud.meter.took_step,
    )
