"""GET /servers/{id}/diagnostics and /topology, and the action trigger_crash_dump."""

from collections.abc import Iterator
from typing import Any

from whimbrel.api.http.call import Call
from whimbrel.api.servers import action_states
from whimbrel.domain.errors import Refused, WrongState
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.guest_diagnostics import Diagnostics
from whimbrel.domain.ids import Slot
from whimbrel.domain.server import Server
from whimbrel.scheduling.requirements.numa import cells_of
from whimbrel.servers.lifecycle import crash_dump as lifecycle

ONE_SHAPE_SINCE = 48
KIB_PER_MIB = 1024


async def show(call: Call) -> Any:
    server = call.server
    action_states.check_placed(server)
    assert server.cell, "a placed server has a cell"
    assert server.host, "a placed server has a host"
    assert server.slot, "a placed server has a guest"
    try:
        measured = await call.cloud.agent(server.cell, server.host).diagnostics(GuestKey(server.id, Slot(server.slot)))
    except Refused:
        raise WrongState(f"Cannot 'get_diagnostics' instance {server.id} while it is in power state shutdown") from None
    if call.minor < ONE_SHAPE_SINCE:
        return dict(_old_form(measured))
    return _full(server, measured, call.cloud.clock.now())


def _full(server: Server, measured: Diagnostics, now: float) -> dict[str, Any]:
    return {
        "state": measured.state,
        "driver": "libvirt",  # clients know no driver of this cloud; as Nova's own simulated one
        "hypervisor": measured.hypervisor,
        "hypervisor_os": "linux",
        "uptime": int(now - server.launched_at) if server.launched_at else None,
        "config_drive": server.config_drive,
        "num_cpus": len(measured.cpus),
        "num_disks": len(measured.disks),
        "num_nics": len(measured.nics),
        "memory_details": {"maximum": measured.memory_maximum_mib, "used": measured.memory_used_mib},
        "cpu_details": [{"id": cpu.id, "time": cpu.time_ns, "utilisation": None} for cpu in measured.cpus],
        "disk_details": [
            {
                "read_bytes": disk.read_bytes,
                "read_requests": disk.read_requests,
                "write_bytes": disk.write_bytes,
                "write_requests": disk.write_requests,
                "errors_count": disk.errors_count,
            }
            for disk in measured.disks
        ],
        "nic_details": [
            {
                "mac_address": nic.mac_address,
                "rx_octets": nic.rx_octets,
                "rx_errors": nic.rx_errors,
                "rx_drop": nic.rx_drop,
                "rx_packets": nic.rx_packets,
                "rx_rate": None,
                "tx_octets": nic.tx_octets,
                "tx_errors": nic.tx_errors,
                "tx_drop": nic.tx_drop,
                "tx_packets": nic.tx_packets,
                "tx_rate": None,
            }
            for nic in measured.nics
        ],
    }


def _old_form(measured: Diagnostics) -> Iterator[tuple[str, int]]:
    """Yield the keys of libvirt hosts below 2.48."""
    yield from ((f"cpu{cpu.id}_time", cpu.time_ns) for cpu in measured.cpus)
    for disk in measured.disks:
        yield f"{disk.device}_read_req", disk.read_requests
        yield f"{disk.device}_read", disk.read_bytes
        yield f"{disk.device}_write_req", disk.write_requests
        yield f"{disk.device}_write", disk.write_bytes
        yield f"{disk.device}_errors", disk.errors_count
    yield "memory", measured.memory_maximum_mib * KIB_PER_MIB
    for nic in (one for one in measured.nics if one.device):
        yield f"{nic.device}_rx", nic.rx_octets
        yield f"{nic.device}_rx_packets", nic.rx_packets
        yield f"{nic.device}_rx_errors", nic.rx_errors
        yield f"{nic.device}_rx_drop", nic.rx_drop
        yield f"{nic.device}_tx", nic.tx_octets
        yield f"{nic.device}_tx_packets", nic.tx_packets
        yield f"{nic.device}_tx_errors", nic.tx_errors
        yield f"{nic.device}_tx_drop", nic.tx_drop


async def topology(call: Call) -> Any:
    """Return the NUMA nodes that the server asks for. The host assigns them to its own, and does not pin cpus."""
    server = call.server
    sees_host = call.may("compute:server:topology:host:index", action_states.owner_of(call))
    pages = server.flavor.extra_specs.get("hw:mem_page_size", "")
    nodes = [
        {
            "vcpu_set": sorted(cpus),
            "memory_mb": memory_mib,
            "siblings": [],
            **({"cpu_pinning": {}} if sees_host else {}),
        }
        for cpus, memory_mib in cells_of(server.flavor, server.image_properties)
    ]
    return {"nodes": nodes, "pagesize_kb": int(pages) if nodes and pages.isdecimal() else None}


async def trigger_crash_dump(call: Call) -> None:
    action_states.check_lock(call)
    action_states.check_placed(call.server)
    action_states.check(call.server, "trigger_crash_dump", lifecycle.STATES)
    await lifecycle.trigger(call.cloud, call.engine, call.requester, call.server)
