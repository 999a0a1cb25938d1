"""The processes of guests, killed without libvirt: for a host that has lost its cloud, and whose libvirt hangs."""

from pathlib import Path

from whimbrel.adapters.qemu import own_processes

PROGRAMS = ("qemu-system", "qemu-kvm", "kvm")


async def kill_guests(guests_dir: Path) -> list[str]:
    """Kill the QEMU processes of all guests below this directory; return what was killed.

    Raises: Unavailable: one does not end.
    """
    found = await own_processes.at_work(PROGRAMS, guests_dir)
    await own_processes.end(found)
    return [f"process {each.pid}" for each in found]
