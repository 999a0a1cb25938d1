"""Secrets in the facts of runs are gone when the run is over, and all other facts are kept."""

from typing import Any

import msgspec
from msgspec.structs import replace

from whimbrel.domain.config_drive import ConfigDrive
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import ProjectId, RunId, ServerId, UserId
from whimbrel.domain.live_transfer import LiveGuest
from whimbrel.domain.run import Run
from whimbrel.moves.facts import LiveFacts, MoveFacts
from whimbrel.moves.live_migrate import LIVE_MIGRATE
from whimbrel.ports.placement.placement import Owner
from whimbrel.saga.step import Saga


class Inner(msgspec.Struct, frozen=True):
    word: str = ""
    other: int = 0


class Facts(msgspec.Struct, frozen=True):
    password: str = ""
    inner: Inner | None = None
    changes: dict[str, Any] = {}


SAGA: Saga[Facts] = Saga("s", 1, Facts, (), secrets=("password", "inner.word", "changes.admin_pass"))


def run(facts: Any) -> Run[Any]:
    return Run(
        id=RunId("r"), saga="s", version=1, subject=ServerId("s"), project_id=ProjectId("p"), user_id=UserId("u"),
        asker_project_id=ProjectId("p"), action="req-1", at="", facts=facts,
    )  # fmt: skip


def test_secrets_are_reset_at_each_depth() -> None:
    facts = Facts("secret", Inner("secret", 7), {"admin_pass": "secret", "name": "one"})
    assert SAGA.without_secrets(run(facts)).facts == Facts("", Inner("", 7), {"name": "one"})


def test_facts_without_them_stay_as_they_are() -> None:
    facts = Facts(changes={"name": "one"})
    assert SAGA.without_secrets(run(facts)).facts == facts


def test_a_live_migration_keeps_no_config_drive() -> None:
    guest = LiveGuest(address="a", config_drive=ConfigDrive.of({"meta_data.json": b"secret"}))
    owner = Owner(ProjectId("p"), UserId("u"))
    flavor = Flavor(flavor_id="1", name="small", vcpus=1, memory_mib=1, root_gib=1)
    facts = MoveFacts(owner=owner, name="s", image_id=None, new_flavor=flavor, live=LiveFacts(guest=guest))
    live = LIVE_MIGRATE.without_secrets(run(facts)).facts.live
    assert live == LiveFacts(guest=replace(guest, config_drive=None))
