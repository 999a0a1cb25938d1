"""Looks at libvirt hosts from outside: which guests they have, and whether a server ever runs on two at once."""

import asyncio
from collections.abc import Iterator, Mapping
from itertools import permutations
from threading import Event, Thread
from typing import Any

from tests.live.libvirt_hosts import LibvirtHosts
from whimbrel.adapters.libvirt.connection import load_libvirt
from whimbrel.adapters.qemu import own_processes

LOOKS_EVERY_S = 0.2


class LibvirtWatch(Thread):
    """double_runs: as text. homes: the hosts on which a server was seen to run.

    A guest that waits at the target of a live transfer is paused, and does not run. While a libvirtd is down nothing is
    known of its guests.
    """

    def __init__(self, hosts: Mapping[str, LibvirtHosts]) -> None:
        super().__init__(name="libvirt watch", daemon=True)
        self.double_runs: list[str] = []
        self.homes: set[str] = set()
        self._hosts = hosts
        self._is_over = Event()

    def run(self) -> None:
        while not self._is_over.wait(LOOKS_EVERY_S):
            for one, other in permutations(self._hosts, 2):
                self._look(one, other)

    def stop(self) -> None:
        self._is_over.set()
        self.join()

    def _look(self, one: str, other: str) -> None:
        """Note a server that runs on the other host while it goes on on the first one: its domain is the same."""
        before, there, after = (running(self._hosts[name], name) for name in (one, other, one))
        self.homes |= {one} if before else set()
        for server in there:
            if server in before and before[server] == after.get(server):
                self.double_runs.append(f"server {server} runs on {one} and on {other}")


def running(hosts: LibvirtHosts, name: str) -> dict[str, int]:
    """Return the servers whose guests run, with the number of the run; none if libvirtd does not answer."""
    found: dict[str, int] = {}
    libvirt = load_libvirt()
    try:
        with hosts.connection(name) as connection:
            for domain in connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_RUNNING):
                found[domain.UUIDString()] = domain.ID()
    except libvirt.libvirtError:
        return {}
    return found


def guests(hosts: LibvirtHosts, name: str) -> Iterator[tuple[str, str, bool]]:
    """Yield what a host has: server, host, whether it runs. Each that runs has one process, and no other has any."""
    libvirt = load_libvirt()
    with hosts.connection(name) as connection:
        found: list[tuple[str, str, bool]] = [_guest(domain, name, libvirt) for domain in connection.listAllDomains()]
    processes = asyncio.run(own_processes.at_work("qemu-system", hosts.daemons[name].directory))
    assert len(processes) == sum(runs for _, _, runs in found), (found, processes)
    yield from found


def _guest(domain: Any, host: str, libvirt: Any) -> tuple[str, str, bool]:
    return domain.UUIDString(), host, domain.state()[0] == libvirt.VIR_DOMAIN_RUNNING
