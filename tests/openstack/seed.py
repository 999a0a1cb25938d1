"""Creates what tests expect in the services: catalog, users, network, image, volume type, and a policy of bandwidth."""

from collections.abc import Iterable
from typing import Any

import openstack

from tests.openstack.place import PHYSICAL_NETWORK, REGION, Place

SERVICE_USERS = ("glance", "neutron", "cinder", "placement", "nova", "whimbrel")
SUBNET = "10.77.0.0/22"
MINIMUM_KBPS = 1_000_000
IMAGE = b"tick" * 256 * 1024
"""No boot sector: Glance refuses disks that have one and no partitions."""


def seed(place: Place) -> None:
    catalog = {
        "image": ("glance", place.url("glance")),
        "network": ("neutron", place.url("neutron")),
        "block-storage": ("cinder", f"{place.url('cinder')}/v3"),
        "volumev3": ("cinderv3", f"{place.url('cinder')}/v3"),
        "placement": ("placement", place.url("placement")),
        "compute": ("nova", place.compute_url),
    }
    _seed_identity(connect(place).identity, catalog, place.password)
    cloud = connect(place)  # with a token whose catalog has the services
    _seed_network(cloud.network, cloud.identity.find_project("demo").id)
    cloud.image.create_image(
        "tick", data=IMAGE, disk_format="raw", container_format="bare", visibility="public", wait=True
    )
    for name, backend in (("shared", "nfs"), ("growing", "growing")):
        cloud.block_storage.create_type(name=name, extra_specs={"volume_backend_name": backend})


def connect(place: Place) -> Any:
    return openstack.connect(
        auth_url=place.keystone, username="admin", password=place.password, project_name="admin",
        user_domain_id="default", project_domain_id="default", region_name=REGION,
        load_yaml_config=False, load_envvars=False,
    )  # fmt: skip


def _seed_identity(identity: Any, catalog: dict[str, tuple[str, str]], password: str) -> None:
    for kind, (name, url) in catalog.items():
        service = identity.create_service(type=kind, name=name)
        for interface in ("public", "internal", "admin"):
            identity.create_endpoint(service_id=service.id, interface=interface, url=url, region_id=REGION)
    service, demo = (identity.create_project(name=name, domain_id="default") for name in ("service", "demo"))

    def create_user(name: str, project: Any, roles: Iterable[str]) -> None:
        user = identity.create_user(name=name, password=password, domain_id="default", default_project_id=project.id)
        for role in roles:
            identity.assign_project_role_to_user(project, user, identity.find_role(role))

    for name in SERVICE_USERS:
        create_user(name, service, ("admin", "service"))
    create_user("demo", demo, ("member",))
    identity.assign_project_role_to_user(demo, identity.find_user("admin"), identity.find_role("admin"))


def _seed_network(network: Any, project: str) -> None:
    physical = {"provider_network_type": "flat", "provider_physical_network": PHYSICAL_NETWORK}
    private = network.create_network(name="private", project_id=project, **physical)
    network.create_subnet(
        name="private-subnet", network_id=private.id, project_id=project, ip_version=4, cidr=SUBNET, enable_dhcp=False
    )
    fast = network.create_qos_policy(name="fast", is_shared=True)
    for direction in ("egress", "ingress"):
        network.create_qos_minimum_bandwidth_rule(fast, min_kbps=MINIMUM_KBPS, direction=direction)
