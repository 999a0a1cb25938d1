"""Scenarios of changed passwords: the guest has the new one, and the run has forgotten it."""

from msgspec.structs import replace

from tests.stories.lifecycle import Books, Scenario
from tools.scenarios.incarnations import Result
from whimbrel.domain.guest import GuestKey, GuestSpec
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.saga.engine import Engine
from whimbrel.servers.lifecycle import change_password
from whimbrel.sim.cloud.cloud import World

SECRET = "a new secret"


async def change_it(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await change_password.accept(cloud, engine, requester, server, SECRET, "root", "encrypted")


async def with_agent(world: World, server: Server) -> None:
    """Add an agent to the guest, as its image would."""
    for host in world.hypervisors.values():
        for guest in host.observed_of([server.id]):
            stored = await host._guests.get(guest.key)
            await host._guests.change(guest.key, spec=_with_agent(stored.spec))


def _with_agent(spec: GuestSpec) -> GuestSpec:
    return replace(spec, guest_agent=True)


async def changed(result: Result) -> Books:
    """As before, but for the password in the guest, and its encrypted form in the record."""
    [(host, server, slot, *_)] = result.before["guests"]
    hypervisor = next(each for name, each in result.world.hypervisors.items() if name == host)
    assert await hypervisor.passwords(GuestKey(server, slot)) == {"root": SECRET}
    for run in await result.world.cloud.journal.find(RunFilter(sagas=(change_password.CHANGE_PASSWORD.name,))):
        assert not (run.is_over and SECRET in str(run.facts))
    record = replace(result.before["servers"][server], guest_password="encrypted")
    return {**result.before, "servers": {server: record}}


PASSWORDS = (Scenario("change of a password", change_it, changed, (with_agent,)),)
