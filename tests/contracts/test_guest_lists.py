"""Lists of guests for the doctor: of a real libvirt, and of the fake that its tests use."""

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from tests.doctor.services_copy import GuestsCopy
from tests.live.libvirt_hosts import LibvirtHosts, libvirt_hosts  # noqa: F401
from whimbrel.adapters.libvirt.guest_list import NOVA_NAMESPACES, LibvirtGuests
from whimbrel.doctor.guest_records import GuestRecords
from whimbrel.domain.errors import Unavailable

METADATA = f'<metadata><nova:instance xmlns:nova="{NOVA_NAMESPACES[0]}"/></metadata>'
DOMAIN = """<domain type="qemu"><name>instance-{id:.8}</name><uuid>{id}</uuid><memory unit="MiB">16</memory>{metadata}
<os><type arch="x86_64" machine="pc">hvm</type></os></domain>"""

Define = Callable[[str, str, bool], None]
"""Defines a guest: its state, its id, and whether it is of Nova."""


@pytest.fixture(params=["fake", pytest.param("libvirt", marks=pytest.mark.long)])
def guests(request: pytest.FixtureRequest) -> Iterator[tuple[GuestRecords, Define]]:
    if request.param == "fake":
        fake = GuestsCopy("a")
        yield fake, lambda state, id, of_nova: fake.add("a", id, state, is_of_nova=of_nova)
        return
    hosts: LibvirtHosts = request.getfixturevalue("libvirt_hosts")
    hosts.start("a")
    with hosts.connection("a") as connection:
        defined = []

        def define(state: str, id: str, of_nova: bool) -> None:
            xml = DOMAIN.format(id=id, metadata=METADATA if of_nova else "")
            domain = connection.defineXML(xml)
            defined.append(domain)
            if state != "shut off":
                domain.create()

        yield LibvirtGuests({"a": hosts.daemons["a"].uri}), define
        for domain in defined:
            if domain.isActive():
                domain.destroy()
            domain.undefine()


def test_guests_of_a_host(guests: tuple[GuestRecords, Define]) -> None:
    records, define = guests
    assert records.hosts == ["a"]
    ids = sorted(str(uuid4()) for _ in range(3))
    for id, state, of_nova in zip(ids, ("running", "shut off", "shut off"), (True, True, False), strict=True):
        define(state, id, of_nova)
    found = [each for each in records.guests("a") if each.id in ids]
    assert [(each.id, each.name, each.state, each.is_active, each.is_of_nova) for each in found] == [
        (ids[0], f"instance-{ids[0][:8]}", "running", True, True),
        (ids[1], f"instance-{ids[1][:8]}", "shut off", False, True),
        (ids[2], f"instance-{ids[2][:8]}", "shut off", False, False),
    ]


@pytest.mark.usefixtures("libvirt_hosts")
def test_a_host_that_does_not_answer() -> None:
    with pytest.raises(Unavailable, match="host a at"):
        LibvirtGuests({"a": "qemu:///session?socket=/nowhere"}).guests("a")
