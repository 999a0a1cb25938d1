"""Faults of simulated hosts that a test asks for: each is a file in a directory.

Invariant: a fault belongs to the first server that meets it, and fails each later try for this server too: a create or
a move does not succeed on the next host instead. The files say so, and a restart of the process changes nothing.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
from msgspec.structs import replace

from whimbrel.domain.errors import Refused, Unavailable
from whimbrel.domain.guest import GuestKey, GuestSpec
from whimbrel.domain.ids import HostName, ServerId
from whimbrel.ports.hosts.hypervisor import Hypervisor

READING = "read_snapshot"
"""The order of a hypervisor that is answered by a stream."""


class RequestedFault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault of one order of a hypervisor, by its name in the port; order None: all orders of a host.

    server: to which it belongs; None: the next one. times: how often it happens yet; None: always.
    """

    order: str | None
    error: Literal["refused", "unavailable"] = "refused"
    reason: str = "an injected fault"
    host: HostName | None = None
    server: ServerId | None = None
    times: int | None = None

    def strikes(self, host: HostName, order: str, server: ServerId | None) -> bool:
        if self.host not in (None, host):
            return False
        return self.order is None or (self.order == order and self.server in (None, server))


class RequestedFaults:
    """The faults of a directory, which need not exist."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def add(self, name: str, fault: RequestedFault) -> None:
        """Ask for a fault. name: of its file; those first in the alphabet come first."""
        self._directory.mkdir(parents=True, exist_ok=True)
        part = self._directory / f".{name}.part"
        part.write_bytes(msgspec.json.encode(fault))
        part.replace(self._directory / f"{name}.json")

    def remove(self, name: str) -> None:
        """Remove the request for a fault. Idempotent."""
        (self._directory / f"{name}.json").unlink(missing_ok=True)

    def check(self, host: HostName, order: str, server: ServerId | None) -> None:
        """Raises: Refused, Unavailable: a fault of this order was asked for."""
        for file in sorted(self._directory.glob("*.json")):
            fault = msgspec.json.decode(file.read_bytes(), type=RequestedFault)
            if fault.strikes(host, order, server):
                self._count(file.stem, fault, server)
                raise (Refused if fault.error == "refused" else Unavailable)(fault.reason)

    def _count(self, name: str, fault: RequestedFault, server: ServerId | None) -> None:
        if fault.order is None:
            return
        if fault.times == 1:
            self.remove(name)
        else:
            self.add(name, replace(fault, server=server, times=fault.times and fault.times - 1))


def with_faults(host: HostName, hypervisor: Hypervisor, directory: Path) -> Hypervisor:
    """Return the same hypervisor, with the faults that are asked for in a directory."""
    return cast(Hypervisor, _Faulty(host, hypervisor, RequestedFaults(directory)))


class _Faulty:
    def __init__(self, host: HostName, hypervisor: Hypervisor, faults: RequestedFaults) -> None:
        self._host = host
        self._hypervisor = hypervisor
        self._faults = faults

    def __getattr__(self, order: str) -> Callable[..., Any]:
        method: Callable[..., Awaitable[Any]] = getattr(self._hypervisor, order)
        if order == READING:
            return method

        async def call(*arguments: Any, **named: Any) -> Any:
            self._faults.check(self._host, order, _server(arguments))
            return await method(*arguments, **named)

        return call


def _server(arguments: tuple[Any, ...]) -> ServerId | None:
    match arguments:
        case (GuestSpec() as spec, *_):
            return spec.key.server
        case (GuestKey() as key, *_):
            return key.server
    return None
