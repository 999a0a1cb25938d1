"""The document at a path of the metadata service."""

import posixpath
from typing import Any

from whimbrel.guest_data import ec2_format, openstack_format
from whimbrel.guest_data.described_guest import DescribedGuest
from whimbrel.ports.hosts.control_plane import MetadataAnswer

TEXT, JSON = "text/plain", "application/json"


def parts_of(path: str) -> list[str]:
    """Split a path. Paths below neither `openstack` nor `ec2` are EC2's, as those of its own service."""
    parts = [part for part in posixpath.normpath(f"/{path}").split("/") if part]
    return parts if parts[:1] in (["ec2"], ["openstack"]) else ["ec2", *parts]


def is_password(path: str) -> bool:
    """Check whether a path is that of the password, which a guest may write."""
    root, *rest = parts_of(path)
    version = openstack_format.version_named(rest[0]) if len(rest) == 2 else None
    return (
        root == "openstack"
        and version is not None
        and version >= openstack_format.GRIZZLY
        and rest[1] == openstack_format.PASSWORD
    )


def needs_networks(path: str) -> bool:
    return parts_of(path)[-1] == openstack_format.NETWORK_DATA


def needs_dynamic_vendor_data(path: str) -> bool:
    return parts_of(path)[-1] == openstack_format.VENDOR_DATA_2


def look_up(guest: DescribedGuest, path: str, today: str) -> MetadataAnswer | None:
    """Return the answer to a GET. None: there is nothing at this path. today: later versions are not listed."""
    root, *rest = parts_of(path)
    return _in_openstack(guest, rest, today) if root == "openstack" else _in_ec2(guest, rest)


def _in_openstack(guest: DescribedGuest, parts: list[str], today: str) -> MetadataAnswer | None:
    if not parts:
        listed = [version for version in openstack_format.VERSIONS if version <= today]
        return _text("\n".join([*listed, openstack_format.LATEST]))
    version = openstack_format.version_named(parts[0])
    if version is None or len(parts) > 2:
        return None
    if len(parts) == 1:
        return _text("\n".join(openstack_format.names(guest, version)))
    content = openstack_format.document(guest, version, parts[1])
    if content is None:
        return None
    # Nova sends network_data.json as text.
    is_json = parts[1].endswith(".json") and parts[1] != openstack_format.NETWORK_DATA
    return MetadataAnswer(status=200, content_type=JSON if is_json else TEXT, body=content)


def _in_ec2(guest: DescribedGuest, parts: list[str]) -> MetadataAnswer | None:
    if not parts:
        return _text("\n".join([*ec2_format.VERSIONS, ec2_format.LATEST]))
    found: Any = ec2_format.tree(guest, parts[0])
    for part in parts[1:]:
        found = found.get(part) if isinstance(found, dict) else None
    if found is None:
        return None
    return MetadataAnswer(status=200, body=found) if isinstance(found, bytes) else _text(_printed(found))


def _printed(found: Any) -> str:
    if isinstance(found, dict):
        return "\n".join(_title(key, found[key]) for key in sorted(found) if key != ec2_format.KEY_TITLE)
    return "\n".join(found) if isinstance(found, list) else str(found)


def _title(key: str, value: Any) -> str:
    """Return the line of a key in a listing: branches end with a slash, keys show their names."""
    return str(value.get(ec2_format.KEY_TITLE, f"{key}/")) if isinstance(value, dict) else key


def _text(text: str) -> MetadataAnswer:
    return MetadataAnswer(status=200, body=text.encode())
