"""How libvirt moves running guests between hosts: settings of the operator, as libvirt's flags and parameters."""

from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from whimbrel.adapters.libvirt.connection import Libvirt
from whimbrel.domain.live_transfer import TransferOptions

SCHEME = "libvirt"

Emulated = Literal["suspend", "allow"]
"""What happens to an emulated guest in a live transfer, if this QEMU may lose pages that it writes meanwhile."""

KEEPS_PAGES = 9_000_000
"""The version of QEMU from which an emulated guest's memory is copied completely while it runs."""


@dataclass(frozen=True)
class MigrationSettings:
    """peer_uri: by which the other hosts of the cell reach this libvirt; None: no guest is received.

    address: of this host, for guests' memory and disks; None: libvirt decides. tls: whether they are encrypted.
    """

    peer_uri: str | None = None
    address: str | None = None
    tls: bool = False
    emulated: Emulated = "suspend"

    @property
    def migration_uri(self) -> str:
        if not self.address:
            return ""
        return f"tcp://[{self.address}]" if ":" in self.address else f"tcp://{self.address}"

    def suspends(self, domain_type: str, qemu_version: int) -> bool:
        """Check whether a guest is suspended for its transfer."""
        return self.emulated == "suspend" and domain_type == "qemu" and qemu_version < KEEPS_PAGES


def flags_of(libvirt: Libvirt, options: TransferOptions, disks: list[str], tls: bool, post_copy: bool) -> int:
    """Return the flags of a live transfer. disks: devices that are copied. post_copy: whether it may be ordered.

    The guest arrives paused, and is resumed when the source has released it: when the target's last answer is lost,
    libvirt resumes the guest at the source. libvirt has no post-copy for such guests.
    """
    wanted = {
        "LIVE": True,
        "PEER2PEER": True,
        "PERSIST_DEST": True,
        "PAUSED": not post_copy,
        "POSTCOPY": post_copy,
        "AUTO_CONVERGE": options.auto_converge,
        "NON_SHARED_DISK": bool(disks),
        "UNSAFE": True,  # files that are not copied are shared: the volume service says which hosts reach them
        "TLS": tls,
    }
    flags = 0
    for name in (name for name, is_wanted in wanted.items() if is_wanted):
        flags |= getattr(libvirt, f"VIR_MIGRATE_{name}")
    return flags


def parameters_of(
    libvirt: Libvirt, options: TransferOptions, disks: list[str], migration_uri: str, live: str, permanent: str
) -> dict[str, Any]:
    """Return the parameters of a live transfer. live, permanent: the guest's definitions at the target."""
    parameters: dict[str, Any] = {
        libvirt.VIR_MIGRATE_PARAM_DEST_XML: live,
        libvirt.VIR_MIGRATE_PARAM_PERSIST_XML: permanent,
    }
    if disks:
        parameters[libvirt.VIR_MIGRATE_PARAM_MIGRATE_DISKS] = disks
    if migration_uri:
        parameters[libvirt.VIR_MIGRATE_PARAM_URI] = migration_uri
        parameters[libvirt.VIR_MIGRATE_PARAM_LISTEN_ADDRESS] = urlsplit(migration_uri).hostname
    if options.bandwidth_mib_s:
        parameters[libvirt.VIR_MIGRATE_PARAM_BANDWIDTH] = options.bandwidth_mib_s
    return parameters
