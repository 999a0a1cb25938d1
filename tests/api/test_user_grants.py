"""Beside services that others run: what is a user's is asked for as that user, and grants end with their use."""

from msgspec.structs import replace

from whimbrel.adapters.openstack.sealed_grants import SealedGrants
from whimbrel.domain.errors import Unauthenticated
from whimbrel.domain.ids import ServerId
from whimbrel.ports.services.images import Image, Images
from whimbrel.ports.services.network import Network, NetworkInfo
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.sim.cloud.cloud import IMAGE, PROJECT
from whimbrel.sim.world.ids import SeededIds
from whimbrel.sim.world.images import MemoryImages
from whimbrel.sim.world.network import SimulatedNetwork

from tests.api.front import Front, fault, opened  # isort: skip
from tests.api.test_rebuild import NEW_IMAGE, add_image  # isort: skip

GRANTS = SealedGrants(lambda: "secret of [keystone]")
SHARED = "55555555-5555-5555-5555-555555555555"
FROM_A_VOLUME = [
    {"uuid": NEW_IMAGE, "source_type": "image", "destination_type": "volume", "boot_index": 0, "volume_size": 1}
]


def shared_with(token: str) -> dict[str, Images]:
    """Return what each token's user sees: one of them the image of another project."""
    return {token: MemoryImages({NEW_IMAGE: b"\0" * 100})}


async def test_an_image_that_another_project_shares_can_be_booted_by_those_who_see_it() -> None:
    seen = shared_with("member")
    async with opened(images_of=lambda token: seen.get(token, MemoryImages({}))) as front:
        await add_image(front, owner="another project", visibility="shared")
        await front.boot(imageRef=NEW_IMAGE)
        server = {"name": "x", "flavorRef": "1", "imageRef": NEW_IMAGE, "networks": "none"}
        answer = await front.ask("POST", "/servers", {"server": server}, who="member@p2")
        assert "could not be found" in fault(answer, "badRequest", 400)


async def test_a_network_that_another_project_shares_can_be_named_by_those_who_see_it() -> None:
    shared = NetworkInfo(id=SHARED, name="shared", project_id="another project", is_shared=True, subnets=("s",))
    seen_by_member, seen_by_others = SimulatedNetwork(SeededIds(1)), SimulatedNetwork(SeededIds(2))
    seen_by_member.add_network(shared, "10.7.0.0/24")
    views: dict[str, Network] = {"member": seen_by_member}
    async with opened(network_of=lambda token: views.get(token, seen_by_others)) as front:
        network = front.world.remains.network
        network.add_network(replace(shared, is_shared=False), "10.7.0.0/24")  # for all others
        for networks in ([{"uuid": SHARED}], "auto"):
            server = await front.boot(networks=networks)
            [port] = await network.ports_of([ServerId(server)])
            assert (port.network_id, port.project_id) == (SHARED, PROJECT)
        body = {"name": "x", "flavorRef": "1", "imageRef": IMAGE, "networks": [{"uuid": SHARED}]}
        answer = await front.ask("POST", "/servers", {"server": body}, who="member@p2")
        assert "could not be found" in fault(answer, "badRequest", 400)


class RejectedImages(MemoryImages):
    async def show(self, image_id: str) -> Image:
        raise Unauthenticated("the token is no longer accepted")


async def test_a_token_that_another_service_rejects_is_answered_as_one_that_is_not_valid() -> None:
    """Clients log in anew then. Source: Nova."""
    async with opened(images_of=lambda token: RejectedImages({}), identity_url="http://keystone/v3") as front:
        server = {"name": "x", "flavorRef": "1", "imageRef": NEW_IMAGE, "networks": "none"}
        answer = await front.ask("POST", "/servers", {"server": server})
        fault(answer, "unauthorized", 401)
        assert answer.headers["www-authenticate"] == 'Keystone uri="http://keystone/v3"'


async def grants_of(front: Front) -> list[str]:
    runs = await front.world.cloud.journal.find(RunFilter())
    return [run.facts.grant for run in runs if hasattr(run.facts, "grant")]


async def test_a_volume_is_made_with_the_grant_of_its_user_which_then_is_gone() -> None:
    async with opened(grants=GRANTS) as front:
        await add_image(front)
        await front.boot(imageRef="", block_device_mapping_v2=FROM_A_VOLUME, settle=False)
        [grant] = await grants_of(front)
        assert GRANTS.open(grant) == "member"
        await front.settle()
        assert await grants_of(front) == [""]


async def test_without_new_volumes_no_token_is_kept() -> None:
    async with opened(grants=GRANTS) as front:
        await front.boot(settle=False)
        assert await grants_of(front) == [""]
