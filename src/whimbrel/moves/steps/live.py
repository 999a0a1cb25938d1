"""A live migration around its transfer: what the source's guest is, whether a target can take it, and its arrival."""

from msgspec.structs import replace

from whimbrel.domain.errors import Refused
from whimbrel.domain.guest import Guest, GuestKey
from whimbrel.domain.ids import ServerId
from whimbrel.domain.live_policy import options_of
from whimbrel.moves import needs
from whimbrel.moves.facts import Move, MoveFacts, key_at, live_of, source_of, target_of
from whimbrel.moves.steps import pci_devices
from whimbrel.moves.steps.guest import agent_at, arriving, equipped_target
from whimbrel.moves.steps.target import next_alternate
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.hosts.agent import Agent

POLL_S = 1.0


async def examine_source(move: Move, cloud: Cloud) -> MoveFacts:
    """Return the facts with what a target must know of the guest. Raises: as `examined`."""
    return await examined(move.facts, move.subject, cloud)


async def examined(facts: MoveFacts, server: ServerId, cloud: Cloud) -> MoveFacts:
    """Return the facts of a live migration, or of its plan, with what a target must know of the guest.

    Raises: Refused: it does not run, cannot be moved while it runs, or not without copying its disks.
    """
    assert facts.source, "a running guest is somewhere"
    assert facts.live, "only live migrations ask"
    key = GuestKey(server, facts.source.slot)
    movable = await pci_devices.live_migratable(key, facts.source, cloud) if needs.had_pci(facts) else ()
    guest = await agent_at(cloud, facts.source).examine(key, movable)
    if guest.immovable:
        raise Refused(f"Instance {server} cannot be migrated live: {guest.immovable}.")
    if why := wrong_disks(facts, bool(guest.disks)):
        raise Refused(why)
    return replace(facts, live=replace(facts.live, guest=guest))


def wrong_disks(facts: MoveFacts, has_disks: bool) -> str:
    """Return why block_migration is not possible as requested; "": it is. As Nova, with storage that is not shared."""
    asked = facts.live.block_migration if facts.live else None
    if asked is False and has_disks:
        return "The server has disks on its host, which is not on shared storage: use block migration."
    if asked and not has_disks:
        return "The server has no disk on its host: block migration can not be used."
    return ""


async def check_fit(move: Move, cloud: Cloud) -> None:
    """Ask the target whether it can run the guest. Raises: Refused: it cannot; the next alternate is tried."""
    target, guest = target_of(move), live_of(move).guest
    assert guest, "it was examined"
    fit = await agent_at(cloud, target).compare_cpu(guest.cpu)
    if not fit.fits:
        raise Refused(f"Host {target.host} cannot run the guest: {fit.reason}.")
    host = await cloud.cell(target.cell).hosts.get(target.host)
    if guest.hypervisor_version > host.hypervisor_version > 1:
        needed = f"{guest.hypervisor_type} {guest.hypervisor_version}"
        raise Refused(f"Host {target.host} has hypervisor version {host.hypervisor_version}, older than {needed}.")


def next_host(facts: MoveFacts) -> MoveFacts | None:
    """Return the facts with the next alternate, to which nothing has been transferred."""
    other = next_alternate(facts)
    return other and replace(other, live=other.live and replace(other.live, receiver=None, ticket=0))


async def receive(move: Move, cloud: Cloud) -> MoveFacts:
    """Prepare the target to receive the guest. Return the facts with its address, which `transfer` uses."""
    live = live_of(move)
    assert live.guest, "it was examined"
    spec = await arriving(move, cloud)
    guest = replace(live.guest, pci=await pci_devices.pairs(move, cloud)) if spec.pci else live.guest
    receiver = await agent_at(cloud, target_of(move)).receive(move.order, spec, guest)
    return replace(move.facts, live=replace(live, receiver=receiver))


async def show_post_copy(move: Move, cloud: Cloud) -> None:
    """Do nothing: the line gives the migration its status."""


async def settle_arrival(move: Move, cloud: Cloud) -> None:
    """Make the arrived guest permanent, running or paused as before, once the source has handed over all of it.

    If the target lost power meanwhile, the guest is started there: its disks have arrived.
    """
    target = target_of(move)
    agent, key = agent_at(cloud, target), key_at(move, target)
    await _await_rest(move, cloud)
    guest = await agent.look(key)
    if guest is None or not guest.is_live:
        await agent.define(move.order, await equipped_target(move, cloud))
        await agent.start(move.order, key)
        guest = await agent.look(key)
    await agent.settle_arrival(move.order, key)
    if guest:
        await power_as_before(move, agent, guest)


async def _await_rest(move: Move, cloud: Cloud) -> None:
    """Wait until the source's part of a transfer that may be in post-copy is over."""
    live, source = live_of(move), source_of(move)
    if not (live.is_post_copy and live.receiver):
        return
    agent, options = agent_at(cloud, source), options_of(live.policy)
    while (await agent.transfer(move.order, key_at(move, source), live.receiver, options)).state == "active":
        await cloud.clock.sleep(POLL_S)


async def power_as_before(move: Move, agent: Agent, guest: Guest) -> None:
    """Pause or resume a live guest, as it was before the move."""
    if move.facts.was == "paused" and guest.power == "running":
        await agent.pause(move.order, guest.key)
    elif move.facts.was != "paused" and guest.power == "paused":
        await agent.resume(move.order, guest.key)
