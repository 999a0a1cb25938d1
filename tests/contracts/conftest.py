"""Every contract suite has the databases, and pairs of hosts."""

from tests.contracts.databases import open_store, postgres, tables
from tests.contracts.hypervisors import libvirt_hosts, libvirt_pair, pair
from tests.contracts.nats_bus import bus
from tests.contracts.runs import store

__all__ = ["bus", "libvirt_hosts", "libvirt_pair", "open_store", "pair", "postgres", "store", "tables"]
