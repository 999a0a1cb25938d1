"""A database belongs to one cloud, whose processes have the same rules; `db upgrade` makes both."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from whimbrel import settings
from whimbrel.bootstrap import database_upgrade, process_factory
from whimbrel.bootstrap.process import Process
from whimbrel.bootstrap.process_base import Start
from whimbrel.bootstrap.registration import this_process
from whimbrel.bootstrap.roles import CONDUCTOR, UP, Role
from whimbrel.domain.errors import Refused
from whimbrel.settings.datadir import DataDir, Running

CLOUD = """
[[cell]]
name = "one"
[[cell.host]]
name = "n1"
zone = "z"
vcpus = 4
memory_mib = 4096
disk_gib = 40
driver = "simulated"
"""
RULES = "[rules]\nmax_attempts = {}\n"
OTHER_CLOUD = '[cloud]\nid = "11111111-1111-4111-8111-111111111111"\n'


class Machine:
    """A machine with settings, data directories, and databases by name."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def url(self, database: str) -> str:
        return f"sqlite:///{self._path / database}"

    def config(self, text: str = CLOUD) -> settings.CloudConfig:
        file = self._path / settings.NAME
        file.write_text(text)
        return settings.load(file, needs_cells=False)

    async def start(self, text: str = CLOUD, directory: str = "a", database: str = "db", role: Role = UP) -> Process:
        data = DataDir(self._path / directory)
        data.make()
        data.announce(Running("http://127.0.0.1:1", 1, self.url(database), None))
        record = this_process(role.name, "main", directory)
        return await process_factory.open_process(
            Start(role, self.config(text), self.url(database), record, data, "http://127.0.0.1:1")
        )

    async def refusal(self, **what: str | Role) -> str:
        with pytest.raises(Refused) as caught:
            await self.start(**what)  # type: ignore[arg-type]
        return caught.value.reason


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


async def test_a_data_directory_and_a_database_belong_to_one_cloud(machine: Machine) -> None:
    for directory, database in (("a", "db"), ("a", "db"), ("b", "other")):
        await (await machine.start(directory=directory, database=database)).close()
    ids = [await database_upgrade.cloud_of(machine.url(database)) for database in ("db", "other")]
    assert len({*ids, None}) == 3
    said = await machine.refusal(directory="a", database="other")
    assert f"belongs to the cloud {ids[1]}, and" in said
    assert f"to the cloud {ids[0]}: name the database of that cloud" in said


async def test_a_process_of_other_settings_is_refused(machine: Machine) -> None:
    await (await machine.start()).close()
    assert "[cloud] of the settings says 11111111-1111" in await machine.refusal(text=CLOUD + OTHER_CLOUD)


async def test_a_new_database_gets_the_id_of_the_settings(machine: Machine) -> None:
    await database_upgrade.upgrade(machine.url("db"), machine.config(OTHER_CLOUD))
    assert await database_upgrade.cloud_of(machine.url("db")) == "11111111-1111-4111-8111-111111111111"


async def test_all_processes_have_the_rules_of_the_one_that_migrates(machine: Machine) -> None:
    await (await machine.start(CLOUD + RULES.format(5))).close()
    for text in (CLOUD, CLOUD + RULES.format(5)):
        conductor = await machine.start(text, role=CONDUCTOR)
        assert conductor.cloud.rules.max_attempts == 5
        await conductor.close()
    said = await machine.refusal(text=CLOUD + RULES.format(7), role=CONDUCTOR)
    assert "[rules]: 'max_attempts' is 7 in the settings of this process and 5 in the cloud" in said
    await database_upgrade.upgrade(machine.url("db"), machine.config(CLOUD + RULES.format(7)))
    await (await machine.start(CLOUD + RULES.format(7), role=CONDUCTOR)).close()
    await database_upgrade.upgrade(machine.url("db"), machine.config(CLOUD))  # which sets none
    conductor = await machine.start(role=CONDUCTOR)
    assert conductor.cloud.rules.max_attempts == 7
    await conductor.close()


async def test_images_are_in_one_process(machine: Machine) -> None:
    """Also when it has another role than the first one."""
    up = await machine.start()
    with_images = Role(name="conductor", has_conductor=True, has_images=True)
    said = await machine.refusal(role=with_images)
    assert "the images of this cloud are in another process: whimbrel up, process" in said
    await up.close()
    up = await machine.start(role=replace(UP, has_images=False))
    second = await machine.start(role=with_images)
    await second.close()
    await up.close()


async def test_an_upgrade_makes_all_databases_of_a_cloud(machine: Machine) -> None:
    assert {each.version for each in await database_upgrade.versions(machine.url("db"))} == {None}
    await (await machine.start()).close()
    await database_upgrade.upgrade(machine.url("db"), machine.config())
    shown = await database_upgrade.versions(machine.url("db"))
    assert all(each.is_current for each in shown)
    assert [each.store for each in shown][-1] == "cell_one"
