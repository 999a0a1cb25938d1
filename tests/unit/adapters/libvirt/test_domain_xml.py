"""A domain's XML says what a spec says, and nothing that a user could slip in."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from msgspec.structs import replace

from whimbrel.adapters.libvirt.domain_xml import NAMESPACE, Domain, domain_xml
from whimbrel.adapters.libvirt.slots import Slots
from whimbrel.domain.errors import Refused
from whimbrel.domain.guest import GuestKey, GuestSpec
from whimbrel.domain.ids import ProjectId, ServerId, Slot

KEY = GuestKey(ServerId("0b8a3f6e-8d0c-4c7e-9d51-0a8f7a3f2b11"), Slot("run-1"))
SPEC = GuestSpec(key=KEY, name="web", vcpus=2, memory_mib=513, root_gib=1, image_id="i1", project_id=ProjectId("p1"))


@pytest.fixture
def slots(tmp_path: Path) -> Slots:
    return Slots(tmp_path)


def parsed(slots: Slots, spec: GuestSpec = SPEC, virt_type: str = "qemu") -> ET.Element:
    return ET.fromstring(domain_xml(spec, slots.at(spec.key), virt_type, "tap"))


def test_uuid_and_name_are_the_servers_so_that_libvirt_runs_it_once(slots: Slots) -> None:
    root = parsed(slots)
    assert root.findtext("uuid") == KEY.server
    assert root.findtext("name") == f"whimbrel-{KEY.server}"
    mark = root.find(f"metadata/{{{NAMESPACE}}}guest")
    assert mark is not None
    assert mark.attrib == {"slot": KEY.slot, "home": str(slots.at(KEY).path), "project": "p1"}


def test_sizes_and_files_are_the_slots(slots: Slots) -> None:
    root, slot = parsed(slots), slots.at(KEY)
    memory = root.find("memory")
    assert memory is not None
    assert (memory.text, memory.get("unit"), root.findtext("vcpu")) == ("513", "MiB", "2")
    found = {tag: root.find(f"devices/{tag}/source") for tag in ("disk", "serial")}
    assert {tag: source.attrib for tag, source in found.items() if source is not None} == {
        "disk": {"file": str(slot.disk_file("root"))},
        "serial": {"path": str(slot.console)},
    }
    assert root.find("devices/interface") is None


@pytest.mark.parametrize(("virt_type", "model"), [("kvm", "host-model"), ("qemu", None)])
def test_the_processor_is_the_hosts_only_where_it_is_not_emulated(
    slots: Slots, virt_type: str, model: str | None
) -> None:
    root = parsed(slots, virt_type=virt_type)
    cpu = root.find("cpu")
    assert root.get("type") == virt_type
    assert (cpu.get("mode") if cpu is not None else None) == model


@pytest.mark.parametrize("name", ["</title><devices/>", "a & b", "new\nline", "bell\x07", "\ufffe", "ünï ☃", ""])
def test_a_name_stays_a_name(slots: Slots, name: str) -> None:
    root = parsed(slots, replace(SPEC, name=name))
    assert [child.tag for child in root] == [child.tag for child in parsed(slots)]
    assert root.findtext("title") == "".join(filter(str.isprintable, name))


@pytest.mark.parametrize("bad", ["", ".", "..", "../x", "a/b", "a\0b", "x" * 200, "-rf"])
def test_a_slot_stays_inside_its_directory(slots: Slots, bad: str) -> None:
    for key in (GuestKey(ServerId(bad), KEY.slot), GuestKey(KEY.server, Slot(bad))):
        with pytest.raises(Refused):
            slots.at(key)


def test_a_domain_is_of_one_slot_only() -> None:
    domain = Domain(KEY.server, KEY.slot, "/somewhere", power="running", vcpus=1, memory_mib=32)
    assert domain.is_of(KEY)
    assert not domain.is_of(GuestKey(KEY.server, Slot("run-2")))
    assert not Domain(KEY.server, None, None, power="running", vcpus=1, memory_mib=32).is_of(KEY)
