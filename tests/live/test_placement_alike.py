"""OpenStack Placement itself passes the tests of generations that Whimbrel's passes."""

from pathlib import Path

from tests import real_placement
from tests.api import test_placement_generations as generations
from tests.real_placement import RealPlacement


async def test_generations_rise_alike(tmp_path: Path) -> None:
    real_placement.needed()
    with real_placement.new_database("mariadb") as url:
        openstack = RealPlacement(tmp_path, url)
        async with openstack.running() as client:
            for what in generations.WRITES:
                openstack.empty()
                await generations.test_a_write_that_changes_nothing(client, what)
            for test in (
                generations.test_the_answer_names_the_generation_that_stays,
                generations.test_the_same_claim_again,
            ):
                openstack.empty()
                await test(client)
