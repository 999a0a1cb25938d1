"""The start of a guest with ports that the network has not plugged yet: it is started paused, and runs once they are.

A network agent plugs a port when it sees its device, which is there from the start of the guest on. The state of the
port is read again and again: the event of the network service only makes that sooner, and may be lost.
Source: Nova's vif_plugging_timeout and vif_plugging_is_fatal.
"""

import structlog

from whimbrel.domain.errors import Refused, Unavailable
from whimbrel.domain.ids import ServerId
from whimbrel.moves.facts import Location, Move, key_at
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.services.network import Port

log = structlog.get_logger(__name__)

POLL_S, HOLD_S = 0.2, 5.0
"""One try of the step looks so often, for so long; then the run waits in the journal."""

NEVER_PLUGGED = ("other",)
"""VIF types of ports that no agent plugs."""


async def start(move: Move, location: Location, cloud: Cloud, *, must_run: bool = False) -> None:
    """Start the guest of a location, once its ports are plugged. must_run: it runs after the time-out in any case.

    Raises: Unavailable: they are not plugged yet; Refused: they were not plugged in time, or cannot be.
    """
    agent, key = cloud.agent(location.cell, location.host), key_at(move, location)
    if not (move.facts.ports and cloud.rules.vif_plugging_timeout_s):
        await agent.start(move.order, key)
        return
    waits = await _unplugged(move, cloud)
    if not waits and not move.tries and move.epoch == 1:
        await agent.start(move.order, key)  # the first try: it was never started paused
        return
    guest = await agent.look(key)
    if waits and not (guest and guest.power == "running"):
        await agent.start(move.order, key, paused=True)
        if waits := await _look(move, cloud):
            _decide(move, waits, cloud, must_run=must_run)
        await agent.resume(move.order, key)
    elif guest and guest.power == "paused":
        await agent.resume(move.order, key)
    else:
        await agent.start(move.order, key)


async def _look(move: Move, cloud: Cloud) -> list[Port]:
    """Return the ports that are still not plugged after a while."""
    until = cloud.clock.now() + HOLD_S
    while (waits := await _unplugged(move, cloud)) and cloud.clock.now() < until:
        if any(port.status == "ERROR" for port in waits):
            break
        await cloud.clock.sleep(POLL_S)
    return waits


async def _unplugged(move: Move, cloud: Cloud) -> list[Port]:
    """Return the ports that the network service will report as plugged, and has not yet."""
    ours = {port.nic.port_id for port in move.facts.ports}
    seen = await cloud.network.ports_of([ServerId(move.subject)], with_requests=False)
    return [port for port in seen if port.id in ours and _is_awaited(port)]


def _is_awaited(port: Port) -> bool:
    return (
        port.status not in ("ACTIVE", "N/A")
        and port.is_enabled
        and port.is_connected
        and port.vif_type not in NEVER_PLUGGED
    )


def _decide(move: Move, waits: list[Port], cloud: Cloud, *, must_run: bool) -> None:
    """Return if the guest is to run without its network. Raises: as `start`."""
    failed = [port.id for port in waits if port.status == "ERROR"]
    longest_s = min(cloud.rules.vif_plugging_timeout_s, cloud.rules.step_timeout_s)
    if not failed and cloud.clock.now() - move.since < longest_s:
        raise Unavailable(f"the guest waits, paused, for the network to plug port {waits[0].id} on {waits[0].host}")
    if cloud.rules.vif_plugging_is_fatal and not must_run:
        why = "cannot plug" if failed else f"has not plugged within {longest_s:g} s"
        raise Refused(f"The network {why} port {(failed or [waits[0].id])[0]} on host {waits[0].host}.")
    log.warning("a guest runs before its ports are plugged", run=move.id, ports=[port.id for port in waits])
