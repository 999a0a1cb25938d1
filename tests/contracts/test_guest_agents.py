"""The contract of guest agents for every hypervisor: the requests, and the outcome if no agent answers."""

import pytest
from msgspec.structs import replace

from tests.contracts.hypervisors import ALSO_REAL, HypervisorPair, new_spec
from tests.contracts.test_hypervisor import snapshot
from whimbrel.domain.errors import NoGuestAgent, NotFound, Refused


@ALSO_REAL
async def test_without_an_agent_in_the_guest_no_password_is_set(pair: HypervisorPair) -> None:
    spec = new_spec()
    with pytest.raises(NotFound):
        await pair.a.set_password(spec.key, "root", "secret")
    await pair.made(pair.a, spec)
    with pytest.raises(Refused, match="does not run"):
        await pair.a.set_password(spec.key, "root", "secret")
    await pair.a.start(spec.key)
    with pytest.raises(NoGuestAgent):
        await pair.a.set_password(spec.key, "root", "secret")


@pytest.mark.long
async def test_a_channel_to_which_no_agent_listens_is_not_enough(libvirt_pair: HypervisorPair) -> None:
    pair, spec = libvirt_pair, replace(new_spec(), guest_agent=True)
    await pair.made(pair.a, spec)
    await pair.a.start(spec.key)
    await pair.seen(pair.a, spec.key, boots=1)
    with pytest.raises(NoGuestAgent):
        await pair.a.set_password(spec.key, "root", "secret")


async def test_a_snapshot_is_refused_where_the_guest_cannot_freeze_as_it_must(pair: HypervisorPair) -> None:
    spec = replace(new_spec(), requires_quiesce=True)
    await pair.made(pair.a, spec)
    assert await snapshot(pair.a, spec.key, [])
    await pair.a.start(spec.key)
    with pytest.raises(Refused, match="requires to be frozen"):
        await snapshot(pair.a, spec.key, [])
    await pair.a.pause(spec.key)
    assert await snapshot(pair.a, spec.key, [])


@pytest.mark.long
async def test_an_agent_that_does_not_answer_keeps_no_snapshot_from_being_taken(libvirt_pair: HypervisorPair) -> None:
    pair, spec = libvirt_pair, replace(new_spec(), guest_agent=True)
    await pair.made(pair.a, spec)
    await pair.a.start(spec.key)
    await pair.seen(pair.a, spec.key, boots=1)
    assert await snapshot(pair.a, spec.key, [])
