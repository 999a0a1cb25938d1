"""What `whimbrel doctor` reads beside Nova's databases: Neutron and Cinder by API, hypervisors by libvirt."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from whimbrel.cli.client import Api, Login, find_login
from whimbrel.doctor.diagnosis import Checks
from whimbrel.doctor.guest_checks import GuestChecks
from whimbrel.doctor.port_checks import PortChecks
from whimbrel.doctor.volume_checks import VolumeChecks
from whimbrel.domain.errors import Invalid
from whimbrel.settings.datadir import default_path

if TYPE_CHECKING:
    import httpx

    from whimbrel.adapters.libvirt.guest_list import LibvirtGuests

NEVER_CHECKED = ("NUMA pinning",)
ADMIN = "admin"
VOLUME_TYPES = ("block-storage", "volumev3")
VOLUME_HEADERS = {"OpenStack-API-Version": "volume 3.27"}


class Sources:
    """Opens what is read, and keeps its login from one look to the next."""

    def __init__(
        self, login: Login | None, guests: "LibvirtGuests | None", transport: "httpx.BaseTransport | None" = None
    ) -> None:
        """login: of an administrator; None: Neutron and Cinder are not asked. guests: None: no hypervisor is.

        transport: None: the network.
        """
        self._api = Api(login, transport) if login else None
        self._guests = guests

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._api:
            self._api.close()

    def checks(self, now: float) -> tuple[Sequence[Checks], Sequence[str]]:
        """Return the checks that are possible now, and what is left out, with the reason.

        Raises: Refused, Unavailable: a login that is given does not work.
        """
        api = self._api
        if api:
            api.renew(now)
        found: list[Checks] = []
        left_out: list[str] = []
        for checks, types in ((PortChecks, ("network",)), (VolumeChecks, VOLUME_TYPES)):
            service = next((each for each in types if api and api.has(each)), None)
            if api is None:
                left_out.append(f"{checks.title} (no --os-cloud)")
            elif ADMIN not in api.roles:
                left_out.append(f"{checks.title} (the login has no role {ADMIN})")
            elif service is None:
                left_out.append(f"{checks.title} (the catalog has no {types[0]} service)")
            else:
                found.append(_checks(api, service))
        if self._guests:
            found.append(GuestChecks(self._guests))
            left_out.append(f"guests on other hypervisors than {', '.join(self._guests.hosts)}")
        else:
            left_out.append(f"{GuestChecks.title} (no --libvirt)")
        return found, (*left_out, *NEVER_CHECKED)


def _checks(api: Api, service: str) -> Checks:
    from whimbrel.adapters.openstack.service_lists import CinderVolumes, NeutronPorts

    headers = VOLUME_HEADERS if service in VOLUME_TYPES else {}

    def get(path: str) -> Any:
        return api.get_unversioned(service, path, headers)

    return VolumeChecks(CinderVolumes(get)) if service in VOLUME_TYPES else PortChecks(NeutronPorts(get))


def sources(os_cloud: str | None, libvirt: Sequence[str], environment: Mapping[str, str] = os.environ) -> Sources:
    """Return what the options name. Raises: Invalid; NotFound: no such cloud; Refused: libvirt-python is missing."""
    cloud = os_cloud or environment.get("OS_CLOUD")
    login = find_login(default_path(), cloud, data_dir_given=False, environment=environment) if cloud else None
    return Sources(login, _guests(libvirt) if libvirt else None)


def _guests(libvirt: Sequence[str]) -> "LibvirtGuests":
    from whimbrel.adapters.libvirt.guest_list import LibvirtGuests

    uris = {}
    for each in libvirt:
        host, sign, uri = each.partition("=")
        if not (host and sign and uri):
            raise Invalid(f"--libvirt {each} has no URI: give HOST=URI, as n1=qemu+ssh://n1/system")
        uris[host] = uri
    return LibvirtGuests(uris)
