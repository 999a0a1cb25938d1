"""What the functional tests of OpenStack's clients expect of a cloud: `python -m tools.client_suites DIRECTORY`.

OS_CLIENT_CONFIG_FILE and OS_CLOUD name the cloud and its administrator. DIRECTORY gets a clouds.yaml with the names of
devstack, and the variables of the suites that read no such file.
"""

import os
import shlex
import sys
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import openstack
import yaml
from openstack.connection import Connection

OTHER = "alt"
PASSWORD = "of a test"
IMAGE = "cirros-tick-uec"
"""Suites choose an image of such a name; novaclient else takes the newest one, which another test may have left."""

FLAVORS = {"m1.nano": 128, "m1.micro": 192}


def prepared(cloud: Connection) -> None:
    """Ensure that the cloud has a second project, an external network with a router, small flavors and the image."""
    identity: Any = cloud.identity
    admin, other = (
        identity.find_project(name) or identity.create_project(name=name, domain_id="default")
        for name in ("admin", OTHER)
    )
    for name in ("admin", "manager", "member", "reader"):
        role = identity.find_role(name, ignore_missing=False)
        identity.assign_project_role_to_user(admin, cloud.current_user_id, role)
    user = identity.find_user(OTHER) or identity.create_user(name=OTHER, password=PASSWORD, domain_id="default")
    identity.assign_project_role_to_user(other, user, identity.find_role("member", ignore_missing=False))
    for name, memory_mib in FLAVORS.items():
        if cloud.compute.find_flavor(name) is None:
            cloud.compute.create_flavor(name=name, ram=memory_mib, vcpus=1, disk=1)
    if cloud.image.find_image(IMAGE) is None:
        tick = cloud.image.find_image("tick", ignore_missing=False)
        contents = cloud.image.download_image(str(tick.id)).content
        cloud.image.create_image(
            IMAGE, data=contents, disk_format=tick.disk_format, container_format="bare", visibility="public"
        )
    _router(cloud, admin)


def _router(cloud: Connection, owner: Any) -> None:
    """Create an external network of another project, and a router between it and the network of this one."""
    if cloud.network.find_network("public"):
        return
    public = cloud.network.create_network(name="public", is_router_external=True, project_id=owner.id)
    cloud.network.create_subnet(
        network_id=public.id, ip_version=4, cidr="172.24.4.0/24", is_dhcp_enabled=False, project_id=owner.id
    )
    router = cloud.network.create_router(name="router1", external_gateway_info={"network_id": public.id})
    private = cloud.network.find_network("private", ignore_missing=False)
    cloud.network.add_interface_to_router(router, private.subnet_ids[0])


def named_as_in_devstack(clouds: Mapping[str, Any]) -> dict[str, Any]:
    """Return the clouds by the names of devstack. No project is the system's: an administrator is one everywhere."""
    member, admin = clouds["whimbrel"], deepcopy(clouds["whimbrel-admin"])
    other = deepcopy(member)
    other["auth"] |= {"username": OTHER, "password": PASSWORD, "project_name": OTHER}
    of_demo = deepcopy(admin)
    admin["auth"]["project_name"] = "admin"
    return {
        **dict.fromkeys(("devstack-admin", "devstack-system-admin"), admin),
        "devstack": member,
        "devstack-alt": other,
        "functional_admin": of_demo,
    }


def variables(auth: Mapping[str, str]) -> str:
    """Return the variables of an account, as lines of a shell."""
    names = ("auth_url", "username", "password", "project_name", "user_domain_id", "project_domain_id")
    return "".join(f"export OS_{name.upper()}={shlex.quote(auth[name])}\n" for name in names)


def main(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    prepared(openstack.connect())
    file = Path(os.environ["OS_CLIENT_CONFIG_FILE"])
    clouds = named_as_in_devstack(yaml.safe_load(file.read_text())["clouds"])
    (directory / "clouds.yaml").write_text(yaml.safe_dump({"clouds": clouds}))
    (directory / "admin.sh").write_text(variables(clouds["functional_admin"]["auth"]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
