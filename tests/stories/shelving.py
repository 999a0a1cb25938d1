"""Scenarios of servers that are shelved, offloaded and unshelved."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace as with_

from tests.stories.lifecycle import (
    FUNCTION,
    RULES,
    Books,
    NotSo,
    Scenario,
    as_before,
    gone,
    in_state,
    stopped,
    the_run,
)
from tools.scenarios.incarnations import Result
from whimbrel.domain.ids import HostName
from whimbrel.domain.pci import DIRECT
from whimbrel.domain.server import NOT_SHELVED, Server
from whimbrel.moves import unshelve_requests
from whimbrel.moves.facts import Location
from whimbrel.moves.steps.pci_devices import in_profile
from whimbrel.moves.unshelve_requests import Destination
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import delete, shelve
from whimbrel.sim.cloud.cloud import CELL, SMALL, World

KEPT = with_(RULES, shelved_offload_time_s=-1)
ROOMY = with_(SMALL, flavor_id="3", ephemeral_gib=1, swap_mib=512)


# Before a scenario


async def shelved(world: World, server: Server) -> None:
    engine = world.engine("setup")
    await shelve.shelve(world.cloud, engine, world.requester(), await lookup.find(world.cloud, server.id))
    await world.settle(engine)
    assert (await lookup.find(world.cloud, server.id)).vm_state.startswith("shelved")


async def its_cell_full(world: World, server: Server) -> None:
    """Leave room in the other cell only."""
    for host in world.plan.cells[CELL]:
        hosts = world.cloud.cell(CELL).hosts
        await hosts.set_service(HostName(host), enabled=False, disabled_reason="full", forced_down=False)


# What is asked for


async def unshelve(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await unshelve_requests.unshelve(cloud, engine, requester, server, Destination())


async def unshelve_anywhere(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await unshelve_requests.unshelve(cloud, engine, requester, server, Destination(leaves_cell=True))


# How it may end


async def on_its_host(result: Result) -> Books:
    """A shelved server that is still on its host: its guest is off, and its record names its images."""
    return {**await in_state("shelved", "stopped")(result), "servers": await _shelved(result, "shelved")}


async def offloaded(result: Result) -> Books:
    """A server without a host: its owner's ports and volumes are kept for it, and nothing is anywhere else."""
    before = result.before
    [(_, record)] = (await _shelved(result, "shelved_offloaded")).items()
    volumes = tuple(with_(device, host="") for device in record.volumes)
    return {
        **before,
        "servers": {record.id: with_(record, host=None, slot=None, volumes=volumes)},
        "claims": [],
        "guests": [],
        "disks": [],
        "pci": [],
        "ports": [(port, who, owner, "", {}, 0) if who else (port, who, owner, *rest)
                  for port, who, owner, *rest in before["ports"]],
        "attachments": [(who, volume, None, "reserved") for who, volume, *_ in before["attachments"]],
    }  # fmt: skip


async def _shelved(result: Result, vm_state: str) -> dict[str, Server]:
    [(server_id, before)] = result.before["servers"].items()
    run = await the_run(result, "shelve")
    if not run.facts.shelved_images and not before.volumes:
        raise NotSo("nothing keeps its disk")
    shelved_at = (await lookup.find(result.world.cloud, server_id)).shelved_at
    assert shelved_at, "it does not say since when"
    fields = {"shelved_at": shelved_at, "shelved_host": run.facts.host, "shelved_images": run.facts.shelved_images}
    return {server_id: with_(before, vm_state=vm_state, **fields)}


async def started(result: Result) -> Books:
    """A server that was shelved and runs again where it is."""
    [(server_id, was)] = result.before["servers"].items()
    running = await in_state("active", "running")(result)
    return {**running, "servers": {server_id: with_(was, vm_state="active", **NOT_SHELVED)}}


async def built_again(result: Result) -> Books:
    """An unshelved server: where its run says, with its ports, volumes and disks, and nothing anywhere else."""
    run, before = await the_run(result, "unshelve"), result.before
    target: Location | None = run.facts.target
    if target is None:
        raise NotSo("it has no target")
    [(server_id, was)] = before["servers"].items()
    now, flavor = await lookup.find(result.world.cloud, server_id), was.flavor
    record = with_(
        was,
        **NOT_SHELVED,
        vm_state="active",
        cell=target.cell,
        host=target.host,
        zone=target.zone,
        slot=run.id,
        launched_at=now.launched_at,
        volumes=tuple(with_(device, host=target.host) for device in was.volumes),
    )
    return {
        **before,
        "servers": {server_id: record},
        "records": [(target.cell, server_id, "whole", None)],
        "claims": sorted((server_id, root, tuple(sorted(what.items()))) for root, what in target.parts.items()),
        "guests": [(target.host, server_id, run.id, "running", flavor.vcpus, flavor.memory_mib, True)],
        "disks": _disks(result, target),
        "pci": [(target.host, FUNCTION.address, server_id, port.nic.port_id) for port in run.facts.ports
                if port.nic.vnic_type == DIRECT],
        "ports": sorted(bound(port, run.facts.ports, target) if port[1] else port for port in before["ports"]),
        "attachments": [(who, volume, target.host, "attached") for who, volume, *_ in before["attachments"]],
    }  # fmt: skip


def bound(line: tuple[Any, ...], ports: Sequence[Any], target: Location) -> tuple[Any, ...]:
    port_id, who, owner, *_ = line
    [port] = [one for one in ports if one.nic.port_id == port_id]
    profile: dict[str, Any] = {"allocation": dict(target.served)} if port.requests else {}
    profile |= in_profile(FUNCTION) if port.nic.vnic_type == DIRECT else {}
    return port_id, who, owner, target.host, profile, 1


def _disks(result: Result, target: Location) -> list[tuple[Any, ...]]:
    """Return the disks besides the root disk: the ephemeral one has what it had on the host where it was shelved."""
    server, flavor = result.server, result.server.flavor
    sizes = {"ephemeral": flavor.ephemeral_gib << 30, "swap": flavor.swap_mib << 20}
    first = f"{server.id} on {server.shelved_host}"
    markers = {"ephemeral": first, "swap": f"{server.id} on {target.host}"}
    return [(target.host, server.id, target.slot, name, size, markers[name], True) for name, size in sizes.items()
            if size]  # fmt: skip


EVERYWHERE = tuple((host, "start") for host in ("h1", "h2", "h3"))

SCENARIOS = (
    Scenario("shelve", shelve.shelve, offloaded),
    Scenario("shelve of a stopped one", shelve.shelve, offloaded, (stopped,)),
    Scenario("shelve of one that stays on its host", shelve.shelve, on_its_host, rules=KEPT),
    Scenario("shelve with an ephemeral and a swap disk", shelve.shelve, offloaded, flavor=ROOMY),
    Scenario("shelve with ports and volumes", shelve.shelve, offloaded, devices=True),
    Scenario("shelve with a virtual function", shelve.shelve, offloaded, function=True),
    Scenario("shelve of one on a volume", shelve.shelve, offloaded, devices=True, on_volume=True),
    Scenario("shelve in a group and a zone", shelve.shelve, offloaded, bound=True),
    Scenario("unshelve in a group and a zone", unshelve, built_again, (shelved,), bound=True),
    Scenario("shelve_offload", shelve.offload, offloaded, (shelved,), rules=KEPT),
    Scenario("shelve_offload with ports and volumes", shelve.offload, offloaded, (shelved,), rules=KEPT, devices=True),
    Scenario("shelve_offload with a virtual function", shelve.offload, offloaded, (shelved,), rules=KEPT,
             function=True),
    Scenario("shelve_offload in a group and a zone", shelve.offload, offloaded, (shelved,), rules=KEPT, bound=True),
    Scenario("unshelve_in_place", shelve.unshelve_in_place, started, (shelved,), rules=KEPT),
    Scenario("unshelve_in_place with ports and volumes", shelve.unshelve_in_place, started, (shelved,), rules=KEPT,
             devices=True),
    Scenario("unshelve_in_place with a virtual function", shelve.unshelve_in_place, started, (shelved,), rules=KEPT,
             function=True),
    Scenario("unshelve_in_place in a group and a zone", shelve.unshelve_in_place, started, (shelved,), rules=KEPT,
             bound=True),
    Scenario("unshelve", unshelve, built_again, (shelved,)),
    Scenario("unshelve with an ephemeral and a swap disk", unshelve, built_again, (shelved,), flavor=ROOMY),
    Scenario("unshelve with ports and volumes", unshelve, built_again, (shelved,), devices=True),
    Scenario("unshelve with a virtual function", unshelve, built_again, (shelved,), function=True),
    Scenario("unshelve of one on a volume", unshelve, built_again, (shelved,), devices=True, on_volume=True),
    Scenario("unshelve into another cell", unshelve_anywhere, built_again, (shelved, its_cell_full), two_cells=True,
             devices=True),
    Scenario("unshelve with a virtual function into another cell", unshelve_anywhere, built_again,
             (shelved, its_cell_full), two_cells=True, function=True),
    Scenario("unshelve in a group and a zone into another cell", unshelve_anywhere, built_again,
             (shelved, its_cell_full), two_cells=True, bound=True),
    Scenario("unshelve where a host does not start it", unshelve, built_again, (shelved,), refusing=(("h2", "start"),),
             refused=as_before, devices=True),
    Scenario("unshelve where no host starts it", unshelve, built_again, (shelved,), refusing=EVERYWHERE,
             refused=as_before, devices=True),
    Scenario("delete of a shelved one", delete.accept, gone, (shelved,), insists=True, rules=KEPT),
    Scenario("delete of an offloaded one", delete.accept, gone, (shelved,), insists=True, devices=True),
)  # fmt: skip
