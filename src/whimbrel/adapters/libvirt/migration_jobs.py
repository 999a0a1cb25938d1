"""libvirt's jobs of live transfers: whether there is one, and its statistics."""

import importlib
import re
from typing import Any

import msgspec

from whimbrel.adapters.libvirt.connection import Libvirt, find_domain
from whimbrel.adapters.libvirt.domain_xml import POST_COPY, is_paused_for
from whimbrel.domain.ids import ServerId
from whimbrel.domain.live_transfer import TransferProgress, TransferState

UNLIMITED_MIB_S = (1 << 63) // (1 << 20) - 1
"""The largest bandwidth that libvirt takes."""

PAGE_BYTES = 4096

LEFTOVER = re.compile(r"migration-[a-z]+-(format|storage)")
"""What libvirt calls the targets of disks' copies."""


def is_copying(libvirt: Libvirt, domain: Libvirt) -> bool:
    """Check whether libvirt transfers a guest from here."""
    try:
        job = domain.jobStats()
    except libvirt.libvirtError as error:
        if error.get_error_code() in (libvirt.VIR_ERR_OPERATION_INVALID, libvirt.VIR_ERR_NO_DOMAIN):  # it does not run
            return False
        raise
    return bool(
        job["type"] != libvirt.VIR_DOMAIN_JOB_NONE
        and job.get("operation") == libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT
    )


def set_bandwidth(domain: Libvirt, mib_s: int) -> None:
    """Change the bandwidth of a transfer under way. 0: unlimited.

    libvirt changes that of the memory; it has no way to change that of the disks, so QEMU is asked, which taints the
    domain in libvirt's log.
    """
    domain.migrateSetMaxSpeed(mib_s or UNLIMITED_MIB_S)
    for job in ask_qemu(domain, "query-block-jobs"):
        if job["type"] == "mirror":
            ask_qemu(domain, "block-job-set-speed", device=job["device"], speed=mib_s << 20)


def remove_leftovers(domain: Libvirt) -> None:
    """Remove the targets of disks' copies from a guest that is not being transferred.

    libvirt forgets them if it is killed while it copies, and then each further transfer fails, because they exist.
    """
    names = {node["node-name"] for node in ask_qemu(domain, "query-named-block-nodes")}
    for name in sorted(name for name in names if LEFTOVER.fullmatch(name)):  # a format before its storage
        ask_qemu(domain, "blockdev-del", **{"node-name": name})


def ask_qemu(domain: Libvirt, command: str, **arguments: Any) -> Any:
    """Send a command to the monitor of a live guest's QEMU."""
    order = msgspec.json.encode({"execute": command, "arguments": arguments}).decode()
    said = importlib.import_module("libvirt_qemu").qemuMonitorCommand(domain, order, 0)
    return msgspec.json.decode(said).get("return", [])  # none: the job has just ended


def statistics(libvirt: Libvirt, libvirtd: Libvirt, server: ServerId) -> TransferProgress:
    """Return the progress of a transfer under way; without numbers: it has not begun, or has just ended."""
    domain = find_domain(libvirt, libvirtd, server)
    try:
        if domain is None:
            return TransferProgress(state="active")
        job = domain.jobStats() if is_copying(libvirt, domain) else {}
        return counted("active", job, is_paused_for(libvirt, domain, POST_COPY))
    except libvirt.libvirtError as error:
        if error.get_error_code() in (libvirt.VIR_ERR_OPERATION_INVALID, libvirt.VIR_ERR_NO_DOMAIN):
            return TransferProgress(state="active")
        raise


def counted(state: TransferState, job: dict[str, Any], is_post_copy: bool = False) -> TransferProgress:
    """Return libvirt's statistics of a job."""
    return TransferProgress(
        state=state,
        is_post_copy=is_post_copy,
        memory_total=job.get("memory_total", 0),
        memory_processed=job.get("memory_processed", 0),
        memory_remaining=job.get("memory_remaining", 0),
        disk_total=job.get("disk_total", 0),
        disk_processed=job.get("disk_processed", 0),
        disk_remaining=job.get("disk_remaining", 0),
        dirty_rate=job.get("memory_dirty_rate", 0) * job.get("memory_page_size", PAGE_BYTES),
        rate=job.get("memory_bps", 0) + job.get("disk_bps", 0),
        throttle_percent=job.get("auto_converge_throttle", 0),
        pause_ms=job.get("downtime", 0),
        elapsed_s=job.get("time_elapsed", 0) / 1000,
    )
