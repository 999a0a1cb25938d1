"""The guests of any libvirt host, for the doctor: implements GuestRecords by read-only connections."""

from collections.abc import Mapping, Sequence

from whimbrel.adapters.libvirt.connection import Libvirt, load_libvirt
from whimbrel.doctor.guest_records import Guest
from whimbrel.domain.errors import Unavailable

NOVA_NAMESPACES = ("http://openstack.org/xmlns/libvirt/nova/1.1", "http://openstack.org/xmlns/libvirt/nova/1.0")
"""Of the metadata that Nova's libvirt driver writes into each domain."""
STATES = ("no state", "running", "blocked", "paused", "shutting down", "shut off", "crashed", "suspended")
"""Words of libvirt's states, by number. Source: virDomainState."""


class LibvirtGuests:
    """uris: by host."""

    def __init__(self, uris: Mapping[str, str]) -> None:
        self._libvirt, self._uris = load_libvirt(), uris
        self.hosts: Sequence[str] = sorted(uris)

    def address(self, host: str) -> str:
        return self._uris[host]

    def guests(self, host: str) -> Sequence[Guest]:
        libvirt, uri = self._libvirt, self._uris[host]
        try:
            connection = libvirt.openReadOnly(uri)
            try:
                found = [self._guest(domain) for domain in connection.listAllDomains()]
            finally:
                connection.close()
        except libvirt.libvirtError as error:
            raise Unavailable(f"libvirt of host {host} at {uri} cannot be read: {error.get_error_message()}") from error
        return sorted((each for each in found if each), key=lambda each: each.id)

    def _guest(self, domain: Libvirt) -> Guest | None:
        try:
            state = domain.state()[0]
            return Guest(
                id=domain.UUIDString(),
                name=domain.name(),
                state=STATES[state] if state < len(STATES) else str(state),
                is_active=bool(domain.isActive()),
                is_of_nova=any(self._has_metadata(domain, each) for each in NOVA_NAMESPACES),
            )
        except self._libvirt.libvirtError as error:
            if error.get_error_code() == self._libvirt.VIR_ERR_NO_DOMAIN:
                return None  # it went away meanwhile
            raise

    def _has_metadata(self, domain: Libvirt, namespace: str) -> bool:
        try:
            return bool(domain.metadata(self._libvirt.VIR_DOMAIN_METADATA_ELEMENT, namespace))
        except self._libvirt.libvirtError as error:
            if error.get_error_code() == self._libvirt.VIR_ERR_NO_DOMAIN_METADATA:
                return False
            raise
