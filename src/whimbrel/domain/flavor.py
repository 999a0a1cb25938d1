"""Flavors. A server keeps a copy of its flavor, so that deleting the flavor does not affect it."""

import msgspec

from whimbrel.domain import resources


class Flavor(msgspec.Struct, frozen=True, kw_only=True):
    flavor_id: str  # the id that the API shows; chosen by the operator or a uuid
    name: str
    vcpus: int
    memory_mib: int
    root_gib: int
    ephemeral_gib: int = 0
    swap_mib: int = 0
    rxtx_factor: float = 1.0
    is_public: bool = True
    disabled: bool = False
    description: str | None = None
    extra_specs: dict[str, str] = {}

    def resources(self, has_local_root: bool = True) -> dict[str, int]:
        """Return the resources of a server of this flavor on a host; without a root disk if it boots from a volume."""
        root_gib = self.root_gib if has_local_root else 0
        return resources.of_flavor(self.vcpus, self.memory_mib, root_gib, self.ephemeral_gib, self.swap_mib)
