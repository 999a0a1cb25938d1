"""The decision: filter, weigh, order. Pure: the same snapshot and request give the same decision."""

from collections.abc import Sequence
from zlib import crc32

from whimbrel.ports.placement import Way
from whimbrel.scheduling.filters import FILTERS
from whimbrel.scheduling.snapshot import Choice, Considered, Decision, HostState, Request
from whimbrel.scheduling.weighers import weights


def choose(request: Request, hosts: Sequence[HostState], most: int) -> Decision:
    """Choose up to `most` hosts, the best first; the others are alternates for when the best refuses."""
    left: list[HostState] = []
    considered: list[Considered] = []
    for host in hosts:
        reason = _why_out(host, request)
        if reason:
            considered.append(Considered(host=host.name, reason=reason))
        else:
            left.append(host)
    if not left:
        return Decision(choices=(), considered=tuple(considered))
    weighed = sorted(zip(weights(left), left, strict=True), key=lambda pair: (-pair[0], _turn(request, pair[1])))
    ranked = [Considered(host=host.name, weight=round(weight, 3)) for weight, host in weighed]
    choices = tuple(
        Choice(
            host=host.name,
            cell=host.cell,
            provider=host.provider,
            zone=host.zone,
            way=host.way if isinstance(host.way, Way) else None,
        )
        for _, host in weighed[:most]
    )
    return Decision(choices=choices, considered=(*ranked, *considered))


def passing(request: Request, hosts: Sequence[HostState]) -> list[HostState]:
    """List the hosts that no filter leaves out."""
    return [host for host in hosts if not _why_out(host, request)]


def _why_out(host: HostState, request: Request) -> str | None:
    return next((reason for reason in (check(host, request) for check in FILTERS) if reason), None)


def _turn(request: Request, host: HostState) -> int:
    """Give an order among equals that differs from request to request, so that load spreads."""
    return crc32(f"{request.spread}/{host.name}".encode())
