"""Bugs, planted into a simulated cloud, to see whether the simulator finds them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from whimbrel.domain.run import Run
from whimbrel.moves.resize import MIGRATE, RESIZE
from whimbrel.moves.steps import guest, ports
from whimbrel.ports.cloud import Cloud
from whimbrel.saga.step import Do, Saga, SagaRegistry
from whimbrel.sim.cloud.cloud import World

Plant = Callable[[World], None]


async def forgets(run: Run, cloud: Cloud) -> None:
    """Do nothing, and say that it is done."""


def without_undo(*lines: Do) -> Plant:
    """Leave out the undos of these lines of every move."""

    def plant(world: World) -> None:
        for do in lines:
            _changed(do, undo=None)(world)

    return plant


def without_doing(do: Do) -> Plant:
    """Make a line of every move forget what it is for."""

    async def nothing(run: Run, cloud: Cloud) -> None:
        await forgets(run, cloud)

    nothing.__name__ = do.__name__
    return _changed(do, do=nothing)


def _changed(line: Do, **fields: Any) -> Plant:
    def change(saga: Saga) -> Saga:
        def lines(steps: Any) -> Any:
            return tuple(replace(step, **fields) if step.do is line else step for step in steps)

        return replace(saga, undoable=lines(saga.undoable), forward_only=lines(saga.forward_only))

    def plant(world: World) -> None:
        moves = {saga.name for saga in (RESIZE, MIGRATE)}
        world.registry = SagaRegistry(*(change(saga) if saga.name in moves else saga for saga in world.registry))

    return plant


PLANTED = {
    "a reservation is never abandoned": without_undo(guest.prepare_target),
    "the target's guest is not destroyed": without_undo(guest.start_on_target),
    # Each of the three alone hands the ports back: the others are defences against what arrives late.
    "ports stay at the target": without_undo(ports.activate_target, ports.leave_ports, ports.bind_target),
    "the old guest is not destroyed": without_doing(guest.destroy_on_source),
}
