"""The host of the agent on this machine: the table [host] of the settings, completed by what the machine has."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from whimbrel.domain.errors import Invalid
from whimbrel.domain.ids import HostName
from whimbrel.ports.hosts.control_plane import ANSWERED_WITHIN_S, BEAT_S, SHORTEST_LEASE_S
from whimbrel.settings.cell_sections import LibvirtHost, SimulatedHost
from whimbrel.settings.error_messages import sentence
from whimbrel.settings.host_checks import check_host

SYSTEM_LIBVIRT = "qemu:///system"
FIRST_ZONE = "nova"
GIB = 1024**3


class _File(msgspec.Struct):
    host: SimulatedHost | LibvirtHost


def host_of_agent(
    name: str, table: Mapping[str, Any], host: HostName, directory: Path, network: str | None = None
) -> SimulatedHost | LibvirtHost:
    """Return the settings of this machine's host. What the table does not say is that of the machine.

    name: of the file, for errors. host: the name with which it has joined. directory: of the agent; its file system
    has the disks of guests if no other directory is set. network: of storage. Raises: Invalid.
    """
    if table.get("name", host) != host:
        raise Invalid(
            f"{name}: [host] has the name '{table['name']}', and this machine has joined as '{host}': remove 'name'"
        )
    found = _of_machine(Path(table.get("guests_dir", directory)))
    tables = {"host": {"driver": "libvirt", **found, **table, "name": host}}
    if tables["host"]["driver"] == "libvirt":
        tables["host"] = {"uri": SYSTEM_LIBVIRT, **tables["host"]}
    try:
        found_host = msgspec.convert(tables, _File, strict=True).host
    except msgspec.ValidationError as error:
        raise Invalid(f"{name}: {sentence(str(error), tables)}") from None
    if found_host.self_fence_s is not None and found_host.self_fence_s < SHORTEST_LEASE_S:
        raise Invalid(
            f"{name}: [host] has 'self_fence_s' = {found_host.self_fence_s:g}; heartbeats are sent every {BEAT_S:g} s"
            f" and wait {ANSWERED_WITHIN_S:g} s for their answers, so the host would stop its guests when one is lost:"
            f" make it {SHORTEST_LEASE_S:g} or more"
        )
    check_host(name, found_host, network)
    return found_host


def _of_machine(guests: Path) -> dict[str, Any]:
    """Return zone, processors, memory and disk of this machine. guests: where the disks of guests are."""
    there = next(each for each in (guests, *guests.parents) if each.exists())
    pages, page_bytes = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "zone": FIRST_ZONE,
        "vcpus": os.cpu_count() or 1,
        "memory_mib": pages * page_bytes >> 20,
        "disk_gib": max(1, shutil.disk_usage(there).total // GIB),
    }
