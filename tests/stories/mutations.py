"""The mutants of runs: each undo, wait, save, line and guard is left out by one of them."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from msgspec.structs import replace as with_

from tests.stories.leaving_out import Mutant, Patch, lines_left_out, nothing
from tests.stories.restored_mutations import no_progress_at, of_restored
from whimbrel.adapters.sql.cell import pci_devices as sql_devices
from whimbrel.adapters.sql.cell import servers as sql_servers
from whimbrel.adapters.sql.cell.servers import SqlServers
from whimbrel.adapters.sql.global_.directory import SqlDirectory
from whimbrel.adapters.sql.global_.journal import SqlJournal
from whimbrel.adapters.sql.placement import store as placement
from whimbrel.agent.fence import Fence
from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.errors import Superseded
from whimbrel.domain.run import Run
from whimbrel.moves.resize import MIGRATE, RESIZE
from whimbrel.moves.steps import build_failures, disk, guest, guest_transfer, live, live_queue, ports, record, volumes
from whimbrel.moves.steps.target import choose_target
from whimbrel.reconcilers import rounds
from whimbrel.reconcilers.late_effects_round import release_late_effects
from whimbrel.reconcilers.late_snapshots import drop_late_snapshots
from whimbrel.reconcilers.transfer_images import drop_transfer_images
from whimbrel.repair import steps, unended_swaps
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Step
from whimbrel.servers.allocations import healing
from whimbrel.servers.devices import interfaces, volume_swaps
from whimbrel.servers.devices import volumes as attached
from whimbrel.servers.lifecycle import create, power

HELD_UP = "held up"
"""About orders that wait within an agent."""

IDLE = (
    *(choose_target, record.await_verdict),
    *(volumes.leave_volumes, ports.leave_ports, create.greet, build_failures.trust_host),
    *(live.show_post_copy, live_queue.draw_ticket),
)
"""Lines that do nothing themselves: one decides, one waits, four are there to be undone, one shows a status.

A ticket is missed only where several draw one at once.
"""

WRITTEN_NEXT = (record.switch_home, interfaces.check_unplugged)
"""The home is switched just before the move parks; the door looks just before it takes the port."""

NEVER_RUN = dict.fromkeys(("start", "pause", "unpause", "suspend", "resume"), (power.see_power,))
"""Lines that a saga shares with others and never comes to: these refuse broken servers, whose power is looked at."""

_ONE_IS_ENOUGH = (
    "a new guest has no disk but its own: each later undo ends the jobs on its host and destroys what is there"
)
_UNDONE_BY_PREPARE = "hosts keep the disk of a guest that runs, and the undo of prepare_target destroys what is there"
_LOOKS_ITSELF = (
    "it looks at what the guest was made of, and destroys whatever is there: it needs no other undo before it"
)
_COPY_ENDED = "only a refusal of swap_in_guest turns it back, and that comes after it has ended the copy itself"
_HOST_REFUSES = "the host refuses it until then, and is asked again: of a guest that is on, or that boots from the disk"

EQUIVALENT = {
    "create: no undo of build_disk": _ONE_IS_ENOUGH,
    "create: the undo of build_disk waits for nothing": _ONE_IS_ENOUGH,
    "create: the undo of prepare_target waits for nothing": _ONE_IS_ENOUGH,
    "evacuate: no undo of build_disk": _UNDONE_BY_PREPARE,
    "evacuate: the undo of build_disk waits for nothing": _UNDONE_BY_PREPARE,
    "evacuate: the undo of prepare_target waits for nothing": _LOOKS_ITSELF,
    "evacuate: the undo of bind_target waits for nothing": "it returns the ports to the source itself, if need be",
    "rebuild: the undo of prepare_target waits for nothing": _LOOKS_ITSELF,
    "rebuild: the undo of reimage_root waits for nothing": "it changes nothing, and waits for the image only",
    "rescue: the undo of build_rescue_disk waits for nothing": _HOST_REFUSES,
    "rescue: the undo of enter_rescue waits for nothing": _HOST_REFUSES,
    "unrescue: the undo of leave_rescue waits for nothing": _HOST_REFUSES,
    "shelve: the undo of register_images waits for nothing": "it looks at the guest, and deletes none that is needed",
    "unshelve: no undo of fetch_shelved": _UNDONE_BY_PREPARE,
    "unshelve: the undo of fetch_shelved waits for nothing": _UNDONE_BY_PREPARE,
    "unshelve: the undo of prepare_target waits for nothing": _LOOKS_ITSELF,
    "the undo of carry_disk waits for nothing": _UNDONE_BY_PREPARE,
    "the undo of prepare_target waits for nothing": _LOOKS_ITSELF,
    "swap_volume: no undo of swap_in_guest": _COPY_ENDED,
    "swap_volume: the undo of reserve_volume_later waits for nothing": _COPY_ENDED,
    "swap_volume: services are called without a look at the journal": "the id of a migration's target never comes back",
}
"""Mutants that no story can notice -> why."""


def mutants() -> Iterator[Mutant]:
    known = list(_mutants())
    gone = set(EQUIVALENT) - {mutant.name for mutant in known}
    assert not gone, f"these mutants are gone: {gone}"
    return (mutant for mutant in known if mutant.name not in EQUIVALENT)


def _mutants() -> Iterator[Mutant]:
    yield from lines_left_out(RESIZE, idle=IDLE, written_next=WRITTEN_NEXT, about=_about)
    yield from _fences()
    yield from _guards()
    for saga in SAGAS:
        if saga.name not in (RESIZE.name, MIGRATE.name) and saga is SAGAS.newest(saga.name):  # a migration is a resize
            never = NEVER_RUN.get(saga.name, ())
            idle, written_next = (*IDLE, *never), (*WRITTEN_NEXT, *never)
            yield from lines_left_out(saga, idle=idle, written_next=written_next, about=_about)
    yield from _looks()
    yield from of_restored()


def _about(step: Step) -> str:
    """Return which stories have this line."""
    conditions = {"crosses_cells": "cell", "sends_disk": "cell", "wants_pci": "function", "had_pci": "function"}
    devices = dict.fromkeys(("moves_ports", "has_ports", "moves_volumes", "has_volumes"), "ports")
    devices |= dict.fromkeys(("requests_nics", "requests_volumes", "has_devices"), "ports")
    roots = dict.fromkeys(("renews_root", "reimages_root"), "made anew")
    return {**conditions, **devices, **roots}.get(step.only_if.__name__ if step.only_if else "", "")


def _fences() -> Iterator[Mutant]:
    yield Mutant("no fence at the servers' records", _no_fence(sql_servers, "pass_fence"))
    yield Mutant("no fence at the servers' records, told of cells", _no_fence(sql_servers, "pass_fence"), "cell")
    yield Mutant("no fence at the devices", _no_fence(sql_devices, "pass_fence"), "function")
    # What it books a resize cannot miss, for it books the same again; the switch between cells it can.
    yield Mutant("no fence at the directory", lambda: mock.patch.object(SqlDirectory, "_check_epoch"), "cell")
    yield Mutant("no fence at placement", _no_fence(placement, "raise_fence"))
    yield Mutant("no fence at the hosts", _open_fence)
    yield Mutant("hosts look once only", lambda: mock.patch.object(Fence, "check", return_value=None), HELD_UP)
    yield Mutant("the journal takes any epoch", _any_epoch)
    yield Mutant("the epoch does not rise after silence", _still_epoch)
    for port, module in (("networks", ports), ("volumes", volumes)):
        yield Mutant(f"{port} are called without a look at the journal", nothing((module, "check_epoch")), "ports")


def _guards() -> Iterator[Mutant]:
    yield Mutant("destroyed without looking", nothing((guest, "_check_whole")))
    yield Mutant("no record is frozen at a switch", _never_frozen, "cell")
    yield Mutant("no record is whole again", _never_whole, "cell")
    for name in ("_has_arrived", "_give_up"):
        mutant = f"live_migrate: {name} of the transfer is left out"
        yield Mutant(mutant, nothing((guest_transfer, name)), kind="live_migrate")
    yield Mutant("the disk's image is left where it was sent", nothing((disk, "drop_parcel")), "cell")
    yield Mutant("what came late to networks and volumes stays", lambda: _without(release_late_effects), "ports")
    yield Mutant("an image that came late stays", lambda: _without(drop_transfer_images), "cell")
    yield Mutant("snapshot: an image that came late stays", lambda: _without(drop_late_snapshots), kind="snapshot")


def _looks() -> Iterator[Mutant]:
    """Whether a run is in our hands still, asked before services that know no epochs are called.

    A delete only goes forward, and its server's id never comes back: it needs none, but shares lines with creates.
    """
    looks = {
        "create": (ports, volumes),
        "attach_interface": (interfaces,),
        "detach_interface": (interfaces,),
        "attach_volume": (attached,),
        "detach_volume": (attached,),
        "swap_volume": (attached, volume_swaps),
        "heal_ports": (healing,),
        "repair": (steps, unended_swaps),
    }
    for saga, modules in looks.items():
        calls = [(module, "check_epoch") for module in modules]
        yield Mutant(f"{saga}: services are called without a look at the journal", nothing(*calls), "ports", saga)
    yield Mutant("repair: guests are destroyed without proof", nothing((steps, "_see_proof")), "guest", "repair")
    yield Mutant("repair: a swap is ended without asking the host", _never_swapped, "swap", "repair")


# How


def _never_swapped() -> AbstractContextManager[Any]:
    async def old(*_: Any) -> bool:
        return False

    return mock.patch.object(unended_swaps, "_uses_new", old)


def _no_fence(module: Any, name: str) -> Patch:
    """Let every order pass, with the statements that are sent with it."""

    async def ask(tx: Any, _: Any, *asked: Any) -> Any:
        return await tx.ask(*asked)

    return lambda: mock.patch.object(module, name, ask)


def _open_fence() -> AbstractContextManager[Any]:
    """Make hosts note epochs, and refuse none."""
    is_news = Fence._is_news

    def careless(self: Fence, *order: Any) -> bool:
        try:
            return is_news(self, *order)
        except Superseded:
            return False

    return mock.patch.object(Fence, "_is_news", careless)


def _without(look: Any) -> AbstractContextManager[Any]:
    return mock.patch.object(rounds, "SLOW_ROUNDS", tuple(one for one in rounds.SLOW_ROUNDS if one is not look))


def _never_frozen() -> AbstractContextManager[Any]:
    stand = SqlServers.stand

    async def careless(self: SqlServers, order: Any, server: Any, standing: Any) -> Any:
        return await stand(self, order, server, "shared" if standing == "frozen" else standing)

    return mock.patch.object(SqlServers, "stand", careless)


def _never_whole() -> AbstractContextManager[Any]:
    stand = SqlServers.stand

    async def careless(self: SqlServers, order: Any, server: Any, standing: Any) -> Any:
        return await stand(self, order, server, "shared" if standing == "whole" else standing)

    return mock.patch.object(SqlServers, "stand", careless)


def _any_epoch() -> AbstractContextManager[Any]:
    save = SqlJournal.save

    async def careless(self: SqlJournal, run: Run, raised: bool = False, *more: Any) -> None:
        known = await self.get(run.id)
        if not known.is_over:
            await save(self, with_(run, epoch=known.epoch), False, *more)

    return mock.patch.object(SqlJournal, "save", careless)


@contextmanager
def _still_epoch() -> Iterator[None]:
    """Compare no progress either: hosts of older releases are told of none, and refuse by the epoch alone."""
    save = Engine._save

    async def still(self: Engine, run: Run, raised: bool = False, **more: Any) -> Run:
        return await save(self, with_(run, epoch=run.epoch - raised), False, **more)

    with mock.patch.object(Engine, "_save", still), no_progress_at("host"):
        yield
