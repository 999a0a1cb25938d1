"""The files of a config drive.

Invariant: the same server has the same files, on whichever host they are written.
"""

import msgspec

from whimbrel.guest_data import ec2_format, openstack_format
from whimbrel.guest_data.described_guest import DescribedGuest


def drive_files(guest: DescribedGuest) -> dict[str, bytes]:
    """Return path -> content. The password that a guest posts is not among them."""
    files: dict[str, bytes] = {}
    for name in (*ec2_format.ON_DRIVES, ec2_format.LATEST):
        tree = ec2_format.tree(guest, name)
        assert tree, "a known version"
        if "user-data" in tree:
            files[f"ec2/{name}/user-data"] = tree["user-data"]
        for key in tree["meta-data"].get("public-keys", {}).values():
            key.pop(ec2_format.KEY_TITLE)
        files[f"ec2/{name}/meta-data.json"] = msgspec.json.encode(tree["meta-data"])
    for name in (*openstack_format.VERSIONS, openstack_format.LATEST):
        version = openstack_format.version_named(name)
        assert version, "a known version"
        for title in openstack_format.names(guest, version):
            content = openstack_format.document(guest, version, title, guest.server.admin_pass)
            if content is not None:
                files[f"openstack/{name}/{title}"] = content
    return files
