"""The contract of the variables of UEFI for every hypervisor: a guest makes them, and comes elsewhere with them."""

import pytest
from msgspec.structs import replace

from tests.contracts.hypervisors import ALSO_REAL, HypervisorPair, LibvirtPair, new_spec
from tests.live.libvirt_hosts import require_uefi
from whimbrel.domain.errors import Refused
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.guest_hardware import Hardware
from whimbrel.domain.ids import Slot

UEFI = Hardware(firmware="uefi", machine="q35")


@ALSO_REAL
async def test_a_guest_comes_with_its_variables_and_keeps_its_own(pair: HypervisorPair) -> None:
    if isinstance(pair, LibvirtPair):
        require_uefi()
    here = replace(new_spec(), hardware=UEFI)
    await pair.made(pair.a, here)
    await pair.a.start(here.key)
    with pytest.raises(Refused):
        await pair.a.firmware_variables(here.key)
    await pair.a.stop(here.key, 0.0)
    variables = await pair.a.firmware_variables(here.key)
    assert variables
    there = replace(here, key=GuestKey(here.key.server, Slot("there")))
    await pair.b.reserve(there)
    await pair.b.create_disk(there, lambda percent: None)
    await pair.b.define(replace(there, firmware_variables=variables))
    assert await pair.b.firmware_variables(there.key) == variables
    await pair.b.define(there)
    await pair.b.define(replace(there, firmware_variables=await _others(pair)))
    assert await pair.b.firmware_variables(there.key) == variables
    await pair.b.destroy(there.key)
    await pair.b.reserve(there)
    assert await pair.b.firmware_variables(there.key) == b""


async def test_a_guest_without_uefi_has_none(pair: HypervisorPair) -> None:
    spec = new_spec()
    await pair.made(pair.a, spec)
    assert await pair.a.firmware_variables(spec.key) == b""


async def _others(pair: HypervisorPair) -> bytes:
    """Return the variables of a guest that was defined and never started, as far as there are some."""
    other = replace(new_spec(), hardware=UEFI)
    await pair.made(pair.a, other)
    return await pair.a.firmware_variables(other.key)
