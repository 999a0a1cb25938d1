"""The roles of processes: which parts of a cloud a process has.

Invariant: the parts that own files or hosts are in one process of a cloud; all others are in any number of processes.
"""

import msgspec


class Role(msgspec.Struct, frozen=True, kw_only=True):
    """What a process has. A part that it lacks is reached over HTTP or over the bus."""

    name: str  # of the command
    has_front_ends: bool = False  # identity, compute, network and placement
    has_conductor: bool = False
    has_hosts: bool = False  # the hosts of the settings; then it also writes cells, hosts and rules into the databases
    has_images: bool = False  # the image service, with its files
    has_volumes: bool = False  # the volume service, with its files
    migrates: bool = False  # migrates the databases at its start; the others require the schema of their version

    @property
    def sole_parts(self) -> tuple[str, ...]:
        """Return the parts of which a cloud has one."""
        has = {"hosts": self.has_hosts, "images": self.has_images, "volumes": self.has_volumes}
        return tuple(name for name, is_here in has.items() if is_here)


UP = Role(
    name="up",
    has_front_ends=True,
    has_conductor=True,
    has_hosts=True,
    has_images=True,
    has_volumes=True,
    migrates=True,
)
CONSOLE = Role(name="console")
API = Role(name="api", has_front_ends=True)
CONDUCTOR = Role(name="conductor", has_conductor=True)
IMAGE = Role(name="image", has_images=True)
IMAGE_RELAY = Role(name="image-relay")
BOOTSTRAP = Role(name="bootstrap")
VOLUME = Role(name="volume", has_volumes=True)
