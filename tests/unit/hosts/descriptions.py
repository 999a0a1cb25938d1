"""Descriptions of hosts, and a registrar, for tests."""

from collections.abc import Sequence

import msgspec

from whimbrel.domain.host_description import HostDescription
from whimbrel.domain.host_nics import HostNet, HostNic
from whimbrel.domain.ids import HostName
from whimbrel.hosts.registrar import Registrar
from whimbrel.sim.cloud.cloud import World

NEW = HostName("n17")


def description(name: str = NEW, **fields: object) -> HostDescription:
    made = HostDescription(
        name=HostName(name),
        zone="north",
        driver="simulated",
        vcpus=8,
        memory_mib=16384,
        disk_gib=100,
        net=HostNet(host=name, cards=(HostNic(name="ens5", physnet="front"),)),
    )
    return msgspec.structs.replace(made, **fields)


class Reported:
    """Keeps what was reported of NICs."""

    def __init__(self) -> None:
        self.nets: list[HostNet] = []

    async def report(self, nets: Sequence[HostNet]) -> None:
        self.nets += nets


def registrar(world: World, reported: Reported | None = None) -> Registrar:
    return Registrar(world.cloud, (reported or Reported()).report)
