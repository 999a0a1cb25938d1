"""The metadata in EC2's format, of the versions up to 2009-04-04."""

from ipaddress import ip_address
from typing import Any, Final

from whimbrel.guest_data import disk_names
from whimbrel.guest_data.described_guest import DescribedGuest

VERSIONS: Final = (
    *("1.0", "2007-01-19", "2007-03-01", "2007-08-29", "2007-10-10", "2007-12-15", "2008-02-01", "2008-09-01"),
    "2009-04-04",
)
ON_DRIVES: Final = VERSIONS[-1:]
"""The versions that a config drive has: by default Nova leaves out the older ones."""

LATEST: Final = "latest"
KEY_TITLE: Final = "_name"
"""The key of a branch under which a listing shows it."""


def tree(guest: DescribedGuest, version: str) -> dict[str, Any] | None:
    """Return `meta-data` and `user-data` of a version. None: there is no such version."""
    number = VERSIONS.index(version) if version in VERSIONS else -1
    if version == LATEST:
        number = len(VERSIONS) - 1
    if number < 0:
        return None
    shown: dict[str, Any] = {"meta-data": _meta_data(guest, number)}
    if guest.user_data is not None:
        shown["user-data"] = guest.user_data
    return shown


def _meta_data(guest: DescribedGuest, number: int) -> dict[str, Any]:
    server = guest.server
    shown: dict[str, Any] = {
        "ami-id": ec2_id("ami", server.image_id or server.id),
        "ami-launch-index": server.launch_index,
        "ami-manifest-path": "FIXME",
        "instance-id": ec2_id("i", server.id),
        "hostname": guest.hostname,
        "local-ipv4": _first_address(guest),
        "reservation-id": server.reservation_id,
        "security-groups": list(server.security_group_names or ("default",)) if server.nics else [],
    }
    if server.key_name and server.key_data:
        shown["public-keys"] = {"0": {KEY_TITLE: f"0={server.key_name}", "openssh-key": server.key_data}}
    later: tuple[tuple[str, dict[str, Any]], ...] = (
        ("2007-01-19", {"local-hostname": guest.hostname, "public-hostname": guest.hostname, "public-ipv4": ""}),
        ("2007-08-29", {"instance-type": server.flavor.name}),
        ("2007-12-15", {"block-device-mapping": _devices(guest)}),
        ("2008-02-01", {"placement": {"availability-zone": guest.zone}}),
        ("2008-09-01", {"instance-action": "none"}),
    )
    for first, keys in later:
        if number >= VERSIONS.index(first):
            shown |= keys
    return shown


def ec2_id(prefix: str, uuid: str) -> str:
    """Return an id in EC2's form: the same for the same uuid, and of 32 bits only."""
    return f"{prefix}-{uuid[:8]}"


def _first_address(guest: DescribedGuest) -> str:
    addresses = (fixed.address for nic in guest.server.nics for fixed in nic.addresses)
    return next((address for address in addresses if ip_address(address).version == 4), "")


def _devices(guest: DescribedGuest) -> dict[str, str]:
    server = guest.server
    root = disk_names.of_root(server)
    shown = {"ami": root.removeprefix("/dev/"), "root": root}
    names = {"ephemeral": "ephemeral0", "swap": "swap"}
    local = disk_names.of_local(server)
    shown |= {names[disk]: device for disk, device in local.items() if disk in names}
    attached = sorted(disk_names.of_volume(server, volume) for volume in server.volumes)
    return shown | {f"ebs{number}": device for number, device in enumerate(attached)}
