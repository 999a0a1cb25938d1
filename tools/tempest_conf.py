"""A tempest.conf for a running cloud, and what Tempest needs in it: `python -m tools.tempest_conf DIRECTORY`.

OS_CLIENT_CONFIG_FILE and OS_CLOUD name the cloud and its administrator. Two images, two flavors, an external network
and a volume type are made unless they exist. No test logs in to a guest: simulated guests have no network.
"""

import sys
from collections.abc import Mapping
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import openstack
from openstack.connection import Connection

from whimbrel.api.http.microversions import FIRST, LAST
from whimbrel.embedded.volume.microversions import MICROVERSIONS as VOLUMES

NETWORK = "tempest-public"
CONTENTS = b"tempest\n" * 128  # zeros would be an archive of tar

Options = Mapping[str, Mapping[str, object]]

SERVED = (
    "block_migration_for_live_migration", "change_password", "cold_migration", "config_drive", "console_output",
    "hostname_fqdn_sanitization", "interface_attach", "live_migrate_back_and_forth", "live_migration",
    "metadata_service", "pause", "rescue", "resize", "shelve", "shelve_migrate", "snapshot",
    "stable_rescue", "suspend", "vnc_console", "volume_backed_live_migration", "volume_multiattach",
)  # fmt: skip
# Consoles of serial lines are served, but Tempest's only test of them adds bytes to a text.
OFF = (
    "serial_console",
    "attach_encrypted_volume",
    "personality",
    "spice_console",
    "swap_volume",
    "vtpm_live_migration",
)

FIXED: Options = {
    "DEFAULT": {"log_dir": "logs", "log_file": "tempest.log"},
    "oslo_concurrency": {"lock_path": "locks"},
    "auth": {"use_dynamic_credentials": True, "create_isolated_networks": True, "admin_project_name": "admin"},
    "identity": {"auth_version": "v3"},
    "identity-feature-enabled": {"trust": False, "access_rules": False},
    "enforce_scope": dict.fromkeys(("nova", "neutron", "glance", "cinder", "keystone", "placement"), True),
    "validation": {"run_validation": False},
    "compute": {"min_compute_nodes": 2, "min_microversion": f"2.{FIRST}", "max_microversion": f"2.{LAST}"},
    "compute-feature-enabled": {
        **dict.fromkeys(SERVED, True),
        **dict.fromkeys(OFF, False),
        "nova_policy_roles": "admin,manager,member,reader",
        "scheduler_enabled_filters": "all",
    },
    "volume": {
        "min_microversion": f"3.{min(VOLUMES)}",
        "max_microversion": f"3.{max(VOLUMES)}",
        "volume_type_multiattach": "multiattach",
    },
    "volume-feature-enabled": {"backup": False, "extend_attached_volume": True},
    "service_available": {"swift": False, "horizon": False},
}
"""What is the same for each cloud: what simulated hosts and the embedded services can do."""


def prepared(cloud: Connection) -> Options:
    """Ensure that the cloud has what Tempest needs; return the options that name it."""
    auth, public = cloud.config.auth, _external_network(cloud)
    if cloud.block_storage.find_type("multiattach") is None:
        cloud.block_storage.create_type(name="multiattach", extra_specs={"multiattach": "<is> True"})
    return {
        "auth": {"admin_username": auth["username"], "admin_password": auth["password"]},
        "identity": {"uri_v3": auth["auth_url"], "region": cloud.config.region_name},
        "compute": {
            "image_ref": _image(cloud, "tempest-1"),
            "image_ref_alt": _image(cloud, "tempest-2"),
            "flavor_ref": _flavor(cloud, "tempest-1", 128),
            "flavor_ref_alt": _flavor(cloud, "tempest-2", 192),
        },
        "network": {"public_network_id": public.id, "floating_network_name": public.name},
    }


def _image(cloud: Connection, name: str) -> str:
    """hw_qemu_guest_agent: passwords are changed by the agent in the guest."""
    found = cloud.image.find_image(name)
    made = found or cloud.image.create_image(
        name, data=CONTENTS, disk_format="raw", container_format="bare", visibility="public", hw_qemu_guest_agent="yes"
    )
    return str(made.id)


def _flavor(cloud: Connection, name: str, memory_mib: int) -> str:
    found = cloud.compute.find_flavor(name)
    made = found or cloud.compute.create_flavor(name=name, ram=memory_mib, vcpus=1, disk=1)
    return str(made.id)


def _external_network(cloud: Connection) -> Any:
    if found := cloud.network.find_network(NETWORK):
        return found
    made = cloud.network.create_network(name=NETWORK, is_router_external=True)
    cloud.network.create_subnet(network_id=made.id, ip_version=4, cidr="172.24.4.0/24", is_dhcp_enabled=False)
    return made


def write(directory: Path, *of: Options) -> None:
    """Write tempest.conf, and the image file of the scenarios beside it."""
    image = directory / "tempest.img"
    image.write_bytes(CONTENTS)
    parser = RawConfigParser()
    parser.read_dict({"scenario": {"img_file": str(image.absolute()), "img_disk_format": "raw"}})
    for options in of:
        parser.read_dict(options)
    with (directory / "tempest.conf").open("w") as file:
        parser.write(file)


def main(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    write(directory, FIXED, prepared(openstack.connect()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
