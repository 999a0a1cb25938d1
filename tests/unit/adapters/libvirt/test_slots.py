"""A slot is what its directory holds: whole files count, half-made ones do not, removed ones are gone at once."""

from pathlib import Path

import pytest

from tests.contracts.hypervisors import new_spec
from whimbrel.adapters.libvirt.slots import Slots
from whimbrel.adapters.qemu import durable_files


@pytest.fixture
def slots(tmp_path: Path) -> Slots:
    return Slots(tmp_path)


def test_a_spec_comes_back_as_it_was_written(slots: Slots) -> None:
    spec = new_spec()
    slot = slots.at(spec.key)
    assert slot.read_spec() is None
    slot.write_spec(spec)
    assert slot.read_spec() == spec
    assert slots.all() == [slot]


def test_what_is_half_written_is_not_there(slots: Slots) -> None:
    spec = new_spec()
    slot = slots.at(spec.key)
    durable_files.make_directory(slot.path, None)
    slot.part("spec.json").write_text("{")
    assert slots.all() == []
    assert slot.read_spec() is None


def test_removing_takes_one_slot_and_the_rest_of_an_earlier_removal(slots: Slots, tmp_path: Path) -> None:
    old = new_spec()
    new = new_spec(old.key.server)
    for spec in (old, new):
        slots.at(spec.key).write_spec(spec)
    (tmp_path / "trash" / "left").mkdir(parents=True)
    for _ in "ab":
        slots.remove(slots.at(old.key))
    assert slots.all() == [slots.at(new.key)]
    assert list((tmp_path / "trash").iterdir()) == []
    slots.remove(slots.at(new.key))
    assert list((tmp_path / "guests").iterdir()) == []


def test_only_its_owner_reads_what_may_hold_secrets(slots: Slots) -> None:
    spec = new_spec()
    slot = slots.at(spec.key)
    for _ in "ab":
        slot.write_spec(spec)
        slot.write_definition("<domain/>")
        assert [path.stat().st_mode & 0o777 for path in (slot.spec, slot.definition)] == [0o600, 0o600]
