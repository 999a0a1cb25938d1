"""Error messages of the settings file: msgspec reports the error and its path; users need the location and what to
do.
"""

import re
import reprlib
from typing import Any, NamedTuple, cast

import msgspec

from whimbrel.domain.host_nics import HostNic
from whimbrel.domain.numa import NumaNode
from whimbrel.domain.pci import PciAlias, PciDevice
from whimbrel.domain.scheduler_settings import SchedulerRules
from whimbrel.ports.cloud import Rules
from whimbrel.settings.cell_sections import (
    CellTable,
    IpmiFence,
    LibvirtHost,
    RedfishFence,
    SimulatedHost,
    SimulatedTimes,
)
from whimbrel.settings.rules import OWN_TABLES, not_there, rule_must_be, scheduler_rule_must_be
from whimbrel.settings.sections import (
    BusTable,
    ConsolesTable,
    DatabaseTable,
    GuestsTable,
    HttpTable,
    IdentityTable,
    ImagesTable,
    KeystoneTable,
    Listen,
    LiveTable,
    MetadataTable,
    MetricsTable,
    MovesTable,
    NotificationsTable,
    QuotaTable,
    ServicesTable,
    SettingsFile,
    StorageTable,
    TlsTable,
    VolumesTable,
)

AN_AMOUNT = "a whole number, 1 or more"
A_NAME = "at most 63 letters, digits, dots, dashes and underscores, the first a letter or digit"
A_TIME = "a number of seconds from 0 to 86400"
A_BANDWIDTH = "a whole number of kbit a second; 0 has it not counted"
A_RATE = "a whole number of thousands of packets a second; 0 has them not counted"
A_PAUSE = "a whole number of milliseconds from 1 to 600000"
A_LIMIT = "a whole number from 0, which means no limit, to 1000"
AN_AZ_ON_MOVE = "'keep', 'prefer' or 'free'"
A_DATABASE = "'sqlite:///DIRECTORY' or 'postgresql://USER:PASSWORD@HOST/DATABASE'"
A_FILE = "the name of a file: of a systemd credential, or relative to the settings file"
A_SERVICE = "a URL that begins with https:// or http://"
A_PCI_ID = "four hexadecimal digits, letters small, such as '8086'"

SERVICES = ("identity", "compute", "network", "placement", "image", "image_relay", "volume", "console")

MUST_BE = {
    "cell": "a list of tables that begin with [[cell]], at least one",
    "cell.name": "at most 31 small letters, digits and underscores, the first a letter",
    "cell.database": f"{A_DATABASE}; without it the cloud's own",
    "cell.enabled": "true or false; a disabled cell takes no more servers",
    "cell.physnets": "a list of the physical networks that its hosts reach; without it all",
    "cell.storage": "a list of the storage back ends that its hosts reach, such as 'ceph'; without it all",
    "cell.migration_network": "the name of the network on which its hosts transfer live servers to other cells' hosts",
    "cell.host": "a list of tables that begin with [[cell.host]], at least one",
    "host.name": A_NAME,
    "host.zone": f"{A_NAME} (and not 'internal')",
    "host.vcpus": AN_AMOUNT,
    "host.memory_mib": f"{AN_AMOUNT}, of MiB",
    "host.disk_gib": f"{AN_AMOUNT}, of GiB",
    "host.dedicated_vcpus": "a whole number; 0: it has none",
    "host.traits": "a list of traits: standard ones, such as 'HW_CPU_X86_AVX2', or your own, such as 'CUSTOM_SSD'",
    "host.resources": "a table of resource classes, each with a whole number, 1 or more: { CUSTOM_GPU = 2 }",
    "host.driver": "'simulated' or 'libvirt'",
    "host.uri": "a libvirt connection of this machine, such as 'qemu:///system'",
    "host.guests_dir": "a directory in which the guests' disks lie",
    "host.nbd_address": "an address of this host at which the cell's other hosts reach it",
    "host.virt_type": "'auto', 'kvm' or 'qemu'",
    "host.guest_nics": "'tap', 'ovs', 'bridge' or 'user'",
    "host.peer_uri": "the URI by which other hosts reach this libvirt, such as 'qemu+tls://n1.example.org/system'",
    "host.migration_address": "an address of this host at which other hosts reach it",
    "host.migration_tls": "true or false; true encrypts what live migrations copy, by libvirt's certificates",
    "host.tcg_live_migration": "'suspend' or 'allow'",
    "host.console_address": "an address of this host at which the proxies of consoles reach it",
    "host.console_port": "a port number from 0 to 65535; 0 takes a free one",
    "host.self_fence_s": "a number of seconds from 0.01 to 86400; without it the host does not fence itself",
    "host.nic": "a list of tables that begin with [[cell.host.nic]]",
    "host.kpps": A_RATE,
    "host.egress_kpps": A_RATE,
    "host.ingress_kpps": A_RATE,
    "nic.name": "the name of a network device, such as 'ens5'",
    "nic.physnet": "the name of a physical network: at most 64 letters, digits, dashes and underscores",
    "nic.egress_kbps": A_BANDWIDTH,
    "nic.ingress_kbps": A_BANDWIDTH,
    "nic.vnic_types": "['normal'] or ['direct']",
    "host.pci": "a list of tables that begin with [[cell.host.pci]]",
    "host.numa": "a list of tables that begin with [[cell.host.numa]]",
    "numa.cpus": "a whole number from 0 to 4096: how many processors the node has",
    "numa.memory_mib": "a whole number of MiB: the memory of the node",
    "pci.address": "a PCI address, letters small, such as '0000:81:00.1'",
    "pci.vendor_id": A_PCI_ID,
    "pci.product_id": A_PCI_ID,
    "pci.physnet": "the name of a physical network, whose ports may have this device",
    "pci.live_migratable": "true or false",
    "pci.parent_ifname": "the network device of the physical function, such as 'ens1f0'",
    "fence.host": "the name of the host that the device belongs to",
    "fence.driver": "'redfish' or 'ipmi'",
    "fence.address": "a URL such as 'https://10.0.0.17'; for 'ipmi' a name or an IPv4 address, with ':PORT' if not 623",
    "fence.user": "the name of a user of the device that may turn the machine off",
    "fence.password_file": f"{A_FILE}, with the user's password",
    "fence.timeout_s": "a number of seconds from 0.01 to 86400: how long one answer may take",
    "fence.system": "the path of the machine there, such as '/redfish/v1/Systems/1'; without it its only one",
    "fence.ca_file": f"{A_FILE}, with the certificates that the device is trusted by",
    "fence.insecure": "true or false; true: accept any certificate, and plain HTTP",
    "fence.cipher_suite": "a whole number from 0 to 17; without it the best of both sides",
    "rules.az_on_move": AN_AZ_ON_MOVE,
    "rules.az_on_move_of_projects": f"a table of project ids, each with {AN_AZ_ON_MOVE}",
    "rules.scheduler": "a table that begins with [rules.scheduler]",
    "rules.pci_alias": "a list of tables that begin with [[rules.pci_alias]]",
    "pci_alias.name": "a name, as flavors say it in pci_passthrough:alias",
    "pci_alias.vendor_id": A_PCI_ID,
    "pci_alias.product_id": A_PCI_ID,
    "pci_alias.live_migratable": "true or false",
    "moves.live": "a table that begins with [moves.live]",
    "live.longest_pause_ms": A_PAUSE,
    "live.longer_pause_ms": A_PAUSE,
    "live.deadline_s": A_TIME,
    "live.rung_s": "a number of seconds from 1 to 86400",
    "live.ladder": "a list of 'throttle', 'longer_pause', 'post_copy', 'suspend' and 'abort', in the order of trying",
    "live.bandwidth_mib_s": "a whole number of MiB per second from 0, which means no limit, to 1048576",
    "live.at_once_per_host": A_LIMIT,
    "live.at_once_per_link": A_LIMIT,
    "live.of_projects": "tables such as [moves.live.of_projects.PROJECT_ID], with keys of [moves.live]",
    "guests.dhcp_domain": "a domain such as 'example.org'; without one, hostnames stand alone",
    "guests.vendor_data_file": f"{A_FILE}, with a JSON object",
    "guests.vendordata_providers": "a list of 'StaticJSON' and 'DynamicJSON'",
    "guests.vendordata_dynamic_targets": "a list of services, each NAME@URL, such as 'dns@https://dns.example.org'",
    "guests.vendordata_dynamic_connect_timeout_s": "a number of seconds from 0.1 to 60",
    "guests.vendordata_dynamic_read_timeout_s": "a number of seconds from 0.1 to 60",
    "guests.vendordata_dynamic_failure_fatal": "true or false; true: a guest does not start without their answers",
    "guests.vendordata_dynamic_auth": "true or false; true: the services are sent this cloud's token",
    "guests.vendordata_dynamic_ca_file": f"{A_FILE}, with the certificates that the services are trusted by",
    "guests.force_config_drive": "true or false; true: every new server gets a config drive",
    "guests.metadata_requests_per_s": "a number from 0, which means no limit, to 10000",
    "guests.metadata_burst": "a whole number from 1 to 100000",
    "metadata.host": "an address of this machine at which Neutron's metadata agents reach the service",
    "metadata.port": "a port number from 0 to 65535; 0 takes a free one",
    "metadata.secret_file": f"{A_FILE}, with the secret that Neutron's metadata agents have",
    "listen.host": "an address of this machine, such as '127.0.0.1'",
    "listen.port": "a port number from 0 to 65535; 0 takes a free one",
    "quota.driver": "'projects' or 'unified'",
    "quota.count_usage_from_placement": "true or false",
    "quota.unified_limits_resource_strategy": "'require' or 'ignore'",
    "quota.unified_limits_resource_list": "a list of resources, such as 'servers' and 'class:DISK_GB'",
    "volumes.zones": f"a list of names, each of {A_NAME}; without it the default zone and those of the hosts",
    "volumes.nbd_address": "an address of this machine at which the libvirt hosts reach volumes",
    "volumes.nbd_port": "a port number from 0 to 65535; 0 takes a free one and keeps it",
    "volumes.volumes_quota": "a whole number from -1, which means no limit, to 2147483647",
    "volumes.snapshots_quota": "a whole number from -1, which means no limit, to 2147483647",
    "volumes.gigabytes_quota": "a whole number of GiB from -1, which means no limit, to 2147483647",
    "volumes.per_volume_gigabytes_quota": "a whole number of GiB from -1, which means no limit, to 2147483647",
    "images.images_quota": "a whole number from -1, which means no limit, to 2147483647",
    "images.gigabytes_quota": "a whole number of GiB from -1, which means no limit, to 2147483647",
    "images.per_image_gigabytes_quota": "a whole number of GiB from -1, which means no limit, to 2147483647",
    "consoles.token_lifetime_s": "a number of seconds from 1 to 86400",
    "consoles.allowed_origins": "a list of host names, such as 'dashboard.example.org'",
    "consoles.sessions": AN_AMOUNT,
    "notifications.enabled": "true or false",
    "notifications.transport_url": "the URL of a RabbitMQ, such as 'rabbit://whimbrel:secret@mq.example.org:5672/'",
    "notifications.transport_url_file": f"{A_FILE}, with the URL of the message broker in it",
    "notifications.notification_format": "'versioned', 'unversioned' or 'both'",
    "notifications.topics": "a list of names, such as 'versioned_notifications'",
    "notifications.unversioned_topics": "a list of names, such as 'notifications'",
    "notifications.exchange": "a name, such as 'nova'",
    "notifications.queues": "'transient', 'durable' or 'quorum', as the queues of the broker are",
    "notifications.ca_file": f"{A_FILE}, with the certificates of authorities that the broker's may be from",
    "notifications.notify_on_state_change": "'none', 'vm_state' or 'vm_and_task_state'",
    "notifications.bdms_in_notifications": "true or false",
    "notifications.instance_usage_audit": "true or false",
    "notifications.instance_usage_audit_period": "'hour', 'day', 'month' or 'year'",
    "notifications.backlog_s": "a number of seconds from 60 to 31536000",
    "metrics.enabled": "true or false",
    "metrics.open": "true or false; true: /metrics of the cloud's port needs no token",
    "metrics.host": "an address of this machine at which the port of its own is, such as '127.0.0.1'",
    "metrics.port": "a port number from 0 to 65535, of its own; without it /metrics is on the cloud's port",
    "metrics.secret_file": f"{A_FILE}, with the token that Prometheus sends",
    "simulated.faults": "the path of a directory",
    "simulated.live_mib_s": "a number of MiB per second, 0 for transfers that take no time",
    "volumes.exports": "'nbd' or 'simulated'",
    "http.url_bytes": "a whole number of bytes from 1024 to 1048576",
    "http.header_bytes": "a whole number of bytes from 1024 to 1048576",
    "http.headers": "a whole number from 16 to 10000",
    "http.body_bytes_per_s": "a whole number of bytes a second; 0 accepts any rate",
    "http.connections": AN_AMOUNT,
    "http.connections_per_peer": AN_AMOUNT,
    "http.trusted_proxies": "a list of addresses of proxies, such as '127.0.0.1'",
    "database.url": A_DATABASE,
    "database.url_file": f"{A_FILE}, with the URL in it",
    "database.connections": "a whole number from 1 to 1000",
    "tls.cert_file": A_FILE,
    "tls.key_file": A_FILE,
    "tls.insecure": "true or false; true: serve plain HTTP at addresses outside this machine",
    **{f"services.{name}": A_SERVICE for name in ("url", *SERVICES)},
    "keystone.auth_url": "the URL of a Keystone, such as 'https://keystone.example.org/v3'",
    "keystone.username": "the name of a user of that Keystone",
    "keystone.password_file": f"{A_FILE}, with the user's password",
    **{f"keystone.{of}_domain_name": "the name of a domain, such as 'Default'" for of in ("user", "project")},
    **{f"keystone.{of}_domain_id": "the id of a domain, such as 'default'" for of in ("user", "project")},
    "keystone.project_name": "the name of a project, such as 'service'",
    "keystone.application_credential_id": "the id of an application credential",
    "keystone.application_credential_secret_file": f"{A_FILE}, with the application credential's secret",
    "keystone.services": "a list of 'image', 'network' and 'volume'; those that it does not have are embedded",
    "keystone.region": "the name of a region of the catalog, such as 'RegionOne'",
    "keystone.interface": "'internal', 'public' or 'admin'",
    **{f"keystone.{name}": A_FILE for name in ("ca_file", "cert_file", "key_file")},
    "keystone.insecure": "true or false; true: send secrets over plain HTTP to other machines",
    "keystone.timeout_s": "a number of seconds from 0.01 to 86400",
    "keystone.retries": "a whole number from 0 to 10",
    "services.ca_file": A_FILE,
    "services.insecure": "true or false; true: send tokens over plain HTTP to other machines",
    "bus.urls": "a list of the URLs of NATS servers, such as 'tls://n1.example.org:4222'",
    "bus.ca_file": A_FILE,
    "bus.insecure": "true or false; true: connect to other machines without TLS",
    "cloud.id": "the id of the cloud, as `whimbrel db show` prints it",
    "storage.network": "a network of addresses, such as '10.1.0.0/24'",
    "storage.reserved_mib": "a whole number of MiB",
}
"""What each key must be, for error messages. Keys that are not here are times or rules."""

TABLES: dict[str, Any] = {
    "": SettingsFile,
    "cell": CellTable,
    "nic": HostNic,
    "pci": PciDevice,
    "numa": NumaNode,
    "fence": RedfishFence,
    "rules": Rules,
    "scheduler": SchedulerRules,
    "pci_alias": PciAlias,
    "moves": MovesTable,
    "live": LiveTable,
    "guests": GuestsTable,
    "metadata": MetadataTable,
    "notifications": NotificationsTable,
    "simulated": SimulatedTimes,
    "listen": Listen,
    "quota": QuotaTable,
    "volumes": VolumesTable,
    "images": ImagesTable,
    "consoles": ConsolesTable,
    "metrics": MetricsTable,
    "http": HttpTable,
    "database": DatabaseTable,
    "tls": TlsTable,
    "services": ServicesTable,
    "keystone": KeystoneTable,
    "bus": BusTable,
    "cloud": IdentityTable,
    "storage": StorageTable,
}


class _ErrorPath(NamedTuple):
    table: str  # the kind of table, "" for the file itself
    key: str  # "": the table as a whole
    value: Any
    words: str


def sentence(error: str, tables: dict[str, Any]) -> str:
    what, _, path = error.partition(" - at `")
    at = _place(tables, path.rstrip("`"))
    if found := re.match(r"Object contains unknown field `(.*)`", what):
        if at.table == "scheduler" and (why := not_there(found[1])):
            return f"{at.words} has '{found[1]}', which is not there as in Nova: {why}; remove it"
        known = ", ".join(_known(at.table, at.value))
        return f"{at.words} has an unknown key '{found[1]}'; remove it, or use one of: {known}"
    if found := re.match(r"Object missing required field `(.*)`", what):
        return f"{at.words} has no '{found[1]}'; give it {must_be(at.table, found[1])}"
    if not at.key:
        return f"{at.words} is {reprlib.repr(at.value)}; it must be a table"
    return f"{at.words}: '{at.key}' is {reprlib.repr(at.value)}; it must be {must_be(at.table, at.key)}"


def _place(tables: dict[str, Any], path: str) -> _ErrorPath:
    """Resolve a path such as `$.cell[0].host[1].vcpus` in the file."""
    table, key, value, words = "", "", tables, "the file"
    for name, number in re.findall(r"\.(\w+)|\[(\d+)\]", path):
        if number and key not in HEADS:
            break  # a list of plain values is reported as a whole
        if number:
            table, key, value = key, "", cast(Any, value)[int(number)]
            outer = "" if words in ("the file", "[rules]") else f" of {words}"
            words = f"{HEADS[table]} number {int(number) + 1}{_called(value)}{outer}"
            continue
        if key:
            table, words = key, named(key)
        key, value = name, value[name]
    if key in _SINGLE and isinstance(value, dict):
        return _ErrorPath(key, "", value, named(key))
    return _ErrorPath(table, key, value, words)


_SINGLE = tuple(name for name in TABLES if name not in ("", "cell", "nic", "pci", "numa", "fence", "pci_alias"))

HEADS = {
    "cell": "[[cell]]",
    "host": "[[cell.host]]",
    "nic": "[[cell.host.nic]]",
    "pci": "[[cell.host.pci]]",
    "numa": "[[cell.host.numa]]",
    "fence": "[[fence]]",
    "pci_alias": "[[rules.pci_alias]]",
}


def named(table: str) -> str:
    return {"scheduler": "[rules.scheduler]", "live": "[moves.live]"}.get(table, f"[{table}]")


def _called(value: Any) -> str:
    name = value.get("name") if isinstance(value, dict) else None
    return f" ('{name}')" if isinstance(name, str) else ""


def _known(table: str, value: Any) -> list[str]:
    """Return the keys of a table of the file."""
    driver = value.get("driver") if isinstance(value, dict) else None
    by_driver = {"libvirt": LibvirtHost, "ipmi": IpmiFence}
    kind = by_driver.get(driver or "", TABLES.get(table, SimulatedHost))
    elsewhere = OWN_TABLES if kind is Rules else ()
    keys = [each.encode_name for each in msgspec.structs.fields(kind) if each.name not in elsewhere]
    return [*keys, "driver"] if table in ("host", "fence") else keys


def must_be(table: str, key: str) -> str:
    if table == "simulated":
        return MUST_BE.get(f"simulated.{key}", A_TIME)
    if table == "http" and key.endswith("_timeout_s"):
        return "a number of seconds from 0.01 to 86400"
    if table == "scheduler":
        return scheduler_rule_must_be(key)
    if table == "rules" and f"rules.{key}" not in MUST_BE:
        return rule_must_be(key)
    return MUST_BE.get(f"{table}.{key}" if table else key, "a table")
