"""The evidence that the guest on the source cannot run. An evacuation waits here until there is some.

The source's own agent counts most: if it reports that the guest runs, all other evidence is wrong.
"""

from msgspec.structs import replace

from whimbrel.domain.errors import NotFound, Refused, TurnedBack, Unavailable, WorldError
from whimbrel.domain.evidence import Evidence
from whimbrel.domain.host import Host
from whimbrel.domain.ids import HostName
from whimbrel.domain.self_fencing import counted_after_s, self_fenced_at
from whimbrel.moves.evacuation_facts import Evacuation, EvacuationFacts
from whimbrel.moves.facts import key_at, source_of
from whimbrel.moves.steps.guest import agent_at
from whimbrel.ports.cloud import Cloud

OFF = ("reserved", "stopped")
"""Power states in which nothing runs, and nothing starts by itself."""


async def find_evidence(move: Evacuation, cloud: Cloud) -> EvacuationFacts:
    """Return the facts with the evidence. A host with a fence device is powered off; it stays off.

    Raises: Refused: the host is up again; Unavailable: there is no evidence yet, and for what it waits.
    """
    source, now = source_of(move), cloud.clock.now()
    host = await _host(move, cloud)
    if host and host.is_up(now):
        raise Refused(f"Host {source.host} is up again: its servers stay there.")
    lacking: list[str] = []
    evidence = await _of_agent(move, cloud, lacking)
    if evidence is None:
        evidence = await (evidence_of_host(host, cloud, lacking) if host else _of_fence(source.host, cloud, lacking))
    if evidence is None:
        raise Unavailable(f"waits for evidence that the guest on {source.host} cannot run: {'; '.join(lacking)}")
    return replace(move.facts, evidence=evidence)


async def evidence_of_host(host: Host, cloud: Cloud, lacking: list[str]) -> Evidence | None:
    """Return the evidence that no guest runs on a host whose agent does not answer; None: what it lacks is added.

    A host with a fence device is powered off; it stays off.
    """
    evidence = _of_self_fencing(host, cloud, lacking)
    if evidence is None:
        evidence = await _of_fence(host.name, cloud, lacking)
    return evidence or _of_administrator(host, cloud, lacking)


async def check_not_refuted(move: Evacuation, cloud: Cloud) -> None:
    """Check before the guest is started that the source has not come back with it since the evidence was found.

    If the source does not answer and is not up, the evidence still holds.
    Raises: TurnedBack: the guest is live there; Unavailable: the host is up, and its agent does not answer.
    """
    source = source_of(move)
    try:
        guest = await agent_at(cloud, source).look(key_at(move, source))
    except WorldError as silence:
        host = await _host(move, cloud)
        if host and host.is_up(cloud.clock.now()):
            raise Unavailable(f"host {source.host} is up again, and its agent does not answer") from silence
        return
    if guest is not None and guest.power not in OFF:
        raise TurnedBack(f"Host {source.host} has come back with its guest, which is {guest.power}: it stays there.")


async def _host(move: Evacuation, cloud: Cloud) -> Host | None:
    source = source_of(move)
    try:
        return await cloud.cell(source.cell).hosts.get(source.host)
    except NotFound:
        return None


async def _of_agent(move: Evacuation, cloud: Cloud, lacking: list[str]) -> Evidence | None:
    """Raises: Unavailable: the agent reports that the guest runs, whatever the other evidence is."""
    source = source_of(move)
    try:
        guest = await agent_at(cloud, source).look(key_at(move, source))
    except WorldError as silence:
        lacking.append(f"its agent does not answer ({silence.reason})")
        return None
    if guest is not None and guest.power not in OFF:
        raise Unavailable(
            f"waits for evidence that the guest on {source.host} cannot run: the host's agent answers and says that it"
            f" is {guest.power}. Migrate the server instead, or stop the guest or the host"
        )
    detail = "the guest is gone" if guest is None else "the guest is stopped"
    return Evidence(kind="guest_gone", at=cloud.clock.now(), origin=f"agent of {source.host}", detail=detail)


def _of_self_fencing(host: Host, cloud: Cloud, lacking: list[str]) -> Evidence | None:
    """Count on the host's watchdog, once it must have stopped its guests. The agent was asked before."""
    if not host.self_fence_s:
        return None
    at = self_fenced_at(host, cloud.clock.now())
    if at is None:
        left_s = host.seen_at + counted_after_s(host.self_fence_s) - cloud.clock.now()
        lacking.append(f"it fences itself, which counts in {max(left_s, 0.0):.0f} s")
        return None
    detail = f"its watchdog stops its guests {host.self_fence_s:g} s after the last heartbeat that was answered"
    return Evidence(kind="self_fenced", at=at, origin=f"watchdog of {host.name}", detail=detail)


async def _of_fence(host: HostName, cloud: Cloud, lacking: list[str]) -> Evidence | None:
    """Cut the power of the host, and confirm that it is off. Only an answer "off" counts."""
    device = cloud.fences.of(host)
    if device is None:
        lacking.append("it has no fence device")
        return None
    origin = f"{device.kind} {device.address}"
    try:
        if await device.power() != "off":
            await device.power_off()
        if await device.power() != "off":
            raise Unavailable("it says that the host is on")
    except (Unavailable, Refused) as trouble:
        lacking.append(f"its fence device {origin} has not confirmed that it is off ({trouble.reason})")
        return None
    return Evidence(kind="power_off", at=cloud.clock.now(), origin=origin)


def _of_administrator(host: Host, cloud: Cloud, lacking: list[str]) -> Evidence | None:
    if not host.forced_down:
        lacking.append(
            "no administrator has said that it is dead (`whimbrel host force-down`, once it is certain that it is off)"
        )
        return None
    if not cloud.rules.accept_forced_down:
        lacking.append("it is forced down, which the rule accept_forced_down does not count")
        return None
    at = cloud.clock.now() if host.forced_down_at is None else host.forced_down_at
    origin, detail = host.forced_down_by or "forced_down", host.forced_down_reason or "the host is forced down"
    return Evidence(kind="administrator", at=at, origin=origin, detail=detail)
