"""The metadata in OpenStack's format: the documents of each version."""

from typing import Any, Final

import msgspec

from whimbrel.guest_data import disk_names
from whimbrel.guest_data.described_guest import DescribedGuest
from whimbrel.guest_data.network_data import network_data

FOLSOM: Final = "2012-08-10"
GRIZZLY: Final = "2013-04-04"
HAVANA: Final = "2013-10-17"
LIBERTY: Final = "2015-10-15"
NEWTON_1: Final = "2016-06-30"
NEWTON_2: Final = "2016-10-06"
OCATA: Final = "2017-02-22"
ROCKY: Final = "2018-08-27"
VICTORIA: Final = "2020-10-14"
EPOXY: Final = "2025-04-04"

VERSIONS: Final = (FOLSOM, GRIZZLY, HAVANA, LIBERTY, NEWTON_1, NEWTON_2, OCATA, ROCKY, VICTORIA, EPOXY)
LATEST: Final = "latest"

META_DATA, USER_DATA, PASSWORD = "meta_data.json", "user_data", "password"
VENDOR_DATA, NETWORK_DATA, VENDOR_DATA_2 = "vendor_data.json", "network_data.json", "vendor_data2.json"

_FIRST_WITH: Final = {PASSWORD: GRIZZLY, VENDOR_DATA: HAVANA, NETWORK_DATA: LIBERTY, VENDOR_DATA_2: NEWTON_2}


def version_named(name: str) -> str | None:
    """Return a version; None: there is no such version."""
    return VERSIONS[-1] if name == LATEST else name if name in VERSIONS else None


def names(guest: DescribedGuest, version: str) -> list[str]:
    """Return the names of a version's documents, in Nova's order."""
    has_user_data = [USER_DATA] if guest.user_data is not None else []
    return [META_DATA, *has_user_data, *(name for name, first in _FIRST_WITH.items() if version >= first)]


def document(guest: DescribedGuest, version: str, name: str, admin_pass: str | None = None) -> bytes | None:
    """Return a document, except the password. None: there is none. admin_pass: of config drives only."""
    if name not in names(guest, version):
        return None
    match name:
        case "meta_data.json":
            return _encoded(meta_data(guest, version, admin_pass))
        case "user_data":
            return guest.user_data
        case "vendor_data.json":
            return _encoded(guest.rules.static_vendor_data or {})
        case "vendor_data2.json":
            static = guest.rules.static_vendor_data
            return _encoded(({} if static is None else {"static": static}) | dict(guest.dynamic_vendor_data))
        case "network_data.json":
            return _encoded(network_data(guest.networks) if guest.networks else {})
    return None


def meta_data(guest: DescribedGuest, version: str, admin_pass: str | None) -> dict[str, Any]:
    server = guest.server
    shown: dict[str, Any] = {"uuid": server.id}
    if server.metadata:
        shown["meta"] = server.metadata
    if admin_pass:
        shown["admin_pass"] = admin_pass
    if server.key_name and server.key_data:
        shown["public_keys"] = {server.key_name: server.key_data}
        shown["keys"] = [{"name": server.key_name, "type": _key_type(server.key_data), "data": server.key_data}]
    shown |= {
        "hostname": guest.hostname,
        "name": server.name,
        "launch_index": server.launch_index,
        "availability_zone": guest.zone,
    }
    later = (
        (GRIZZLY, "random_seed", guest.random_seed),
        (LIBERTY, "project_id", server.project_id),
        (NEWTON_1, "devices", _devices(guest, version)),
        (VICTORIA, "dedicated_cpus", guest.dedicated_cpus),
    )
    return shown | {key: value for first, key, value in later if version >= first and value is not None}


def _key_type(public_key: str) -> str:
    return "x509" if public_key.lstrip().startswith("-----BEGIN CERTIFICATE") else "ssh"


def _devices(guest: DescribedGuest, version: str) -> list[dict[str, Any]]:
    """Return the tagged devices. Their buses and addresses are left out: the hypervisor chooses them at each start."""
    nowhere = {"bus": "none", "address": "none"}
    trusted = {"vf_trusted": False} if version >= ROCKY else {}
    nics = [
        {**trusted, "type": "nic", "mac": nic.mac, **nowhere, "tags": [nic.tag]}
        for nic in guest.server.nics
        if nic.tag is not None
    ]
    server = guest.server
    disks = [
        {
            "type": "disk",
            "serial": volume.volume_id,
            "path": disk_names.of_volume(server, volume),
            **nowhere,
            "tags": [volume.tag],
        }
        for volume in server.volumes
        if volume.tag is not None
    ]
    return [*nics, *disks]


def _encoded(document: Any) -> bytes:
    return msgspec.json.encode(document)
