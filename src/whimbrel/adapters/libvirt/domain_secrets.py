"""The secrets that libvirt keeps for guests: keys of Ceph's users, by which QEMU reaches volumes."""

from whimbrel.adapters.libvirt.connection import Libvirt, OnLibvirt
from whimbrel.domain.errors import Refused


class Secrets(OnLibvirt):
    async def check(self, secret_uuid: str, volume_id: str) -> None:
        """Raises: Refused: libvirt has no such secret."""
        if not await self.connection.run(lambda c: self._has(c, secret_uuid)):
            raise Refused(
                f"volume {volume_id} needs the libvirt secret {secret_uuid}, which this host does not have: define it"
                " with 'virsh secret-define' and 'virsh secret-set-value'"
            )

    def _has(self, libvirtd: Libvirt, secret_uuid: str) -> bool:
        libvirt = self.libvirt
        try:
            libvirtd.secretLookupByUUIDString(secret_uuid)
        except libvirt.libvirtError as error:
            if error.get_error_code() in (libvirt.VIR_ERR_NO_SECRET, libvirt.VIR_ERR_INVALID_ARG):
                return False
            raise
        return True
