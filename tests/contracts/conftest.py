"""Every contract suite has the databases, and pairs of hosts."""

from tests.contracts.databases import open_store, postgres, tables
from tests.contracts.hypervisors import libvirt_hosts, libvirt_pair, pair
from tests.contracts.nats_bus import bus
from tests.contracts.network_services import around
from tests.contracts.real_fence_devices import ipmi, redfish, redfish_machine
from tests.contracts.runs import store

__all__ = [
    "around",
    "bus",
    "ipmi",
    "libvirt_hosts",
    "libvirt_pair",
    "open_store",
    "pair",
    "postgres",
    "redfish",
    "redfish_machine",
    "store",
    "tables",
]
