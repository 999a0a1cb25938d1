"""The cloud that the release before left with a run at each step of each list: all end as they would have ended there.

tests/live/databases/make_steps.py says how the archives were made.
"""

import json
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.databases.make_steps import DEAD, KINDS, OPTIONS
from tests.live.test_old_databases import OldCloud
from tests.processes import program, wait_for
from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.errors import NotFound
from whimbrel.settings.datadir import DataDir

pytestmark = pytest.mark.long

ARCHIVES = sorted((Path(__file__).parent / "databases" / "steps").glob("*.tar.xz"))
POWER = ("pause", "reboot", "resume", "start", "stop", "suspend", "unpause")
MOVES = ("evacuate", "live_migrate", "migrate", "resize", "unshelve")
NOT_TAKEN = {
    "by servers without PCI devices": {
        *((move, "claim_devices") for move in ("create", *MOVES)),
        *((move, "release_old_devices") for move in MOVES[:-1]),
        *(("shelve", "release_devices"), ("detach_interface", "give_back_device"), ("rebuild", "hand_devices")),
    },
    "by ports without bandwidth": {("attach_interface", "set_claim"), ("detach_interface", "give_back_claim")},
    "in one cell; migrations between cells are there": {
        *((move, step) for move in MOVES if move != "migrate" for step in ("copy_to_target", "erase_at_source")),
        ("resize", "drop_parcel"),
    },
    "by a move that keeps the flavor": {("migrate", "book_new")},
    "where no other host is chosen": {("create", "choose_anew")},
    "by servers that are in no error": {(power, "see_power") for power in POWER},
    "by a server that is not shelved": {("delete", "drop_images")},
    "where shelved servers stay on their hosts": {
        *(("shelve", step) for step in ("destroy_shelved", "release_server", "reserve_volumes", "unbind_ports")),
    },
}
"""Why a step is not taken -> steps of lists."""


@pytest.fixture(scope="module", params=ARCHIVES, ids=lambda archive: archive.name.removesuffix(".tar.xz"))
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place: Path = tmp_path_factory.mktemp("old")
    with tarfile.open(request.param) as packed:
        packed.extractall(place, filter="data")
    return place / "data"


@pytest.fixture(scope="module")
def stands(data: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((data / "stands.json").read_text())
    return found


@pytest.fixture(scope="module")
def cloud(data: Path) -> Iterator[OldCloud]:
    words = ["up", "--data-dir", str(data), "--policy", str(data / "policy.yaml"), *OPTIONS]
    up = program("up", words, data.parent / "up.log")
    up.start()
    try:
        up.wait_until_it_says("Whimbrel is up")
        yield OldCloud(DataDir(data))
    finally:
        up.end()


def test_runs_end_whichever_step_they_stood_at(cloud: OldCloud, stands: list[dict[str, Any]]) -> None:
    wait_until_the_dead_host_is_clean(cloud)
    servers = {server["id"]: server for server in cloud.servers().values()}
    wrong, waiting = [], []
    for stand in stands:
        move = cloud.api.get("compute", f"/whimbrel/moves/{stand['run']}")["move"]
        status = _status(cloud, servers, stand["server"])
        if (move["state"], status) not in _ends(stand):
            wrong.append(f"{stand}: the run is {move['state']}, {move['message']}; the server is {status}")
        if move["state"] == "parked":
            waiting.append(stand["server"])
    assert not wrong, "\n".join(wrong)
    cloud.check_proved()
    for number, server in enumerate(waiting):
        verdict = "revertResize" if number % 2 else "confirmResize"
        cloud.api.post("compute", f"/servers/{server}/action", {verdict: None})
    cloud.wait_for_rest()
    assert Counter(cloud.api.get("compute", f"/servers/{server}")["server"]["status"] for server in waiting) == {
        "ACTIVE": len(waiting)
    }
    cloud.check_proved()


def test_an_archive_has_a_run_at_each_step(stands: list[dict[str, Any]]) -> None:
    there: dict[str, set[tuple[str, str]]] = {"forward": set(), "back": set()}
    for each in stands:
        there[each["way"]].add((each["saga"], each["step"]))
    sagas = [SAGAS.newest(name) for name in sorted({kind.saga for kind in KINDS.values()})]
    steps = [(saga, step) for saga in sagas if saga for step in saga.steps if not (step.accepted or step.in_request)]
    taken = {(saga.name, step.name) for saga, step in steps if not (step.idle or step.parks)}
    undone = {(saga.name, step.name) for saga, step in steps if step.undo and saga.may_turn_back(step.name)}
    assert taken - there["forward"] == set().union(*NOT_TAKEN.values())
    assert undone - there["back"] == {each for each in set().union(*NOT_TAKEN.values()) if each in undone}


def wait_until_the_dead_host_is_clean(cloud: OldCloud) -> None:
    """Wait until all runs have ended, let the dead host answer again, and wait until what was left there is gone."""
    cloud.wait_for_rest()
    (cloud.home.path / "faults" / f"{DEAD}.json").unlink()
    services = cloud.api.get("compute", "/os-services?binary=nova-compute")["services"]
    service = next(each["id"] for each in services if each["host"] == DEAD)
    cloud.api.put("compute", f"/os-services/{service}", {"forced_down": False})
    left = "/os-migrations?migration_type=evacuation&status=done"
    wait_for(lambda: cloud.api.get("compute", left)["migrations"], lambda found: not found, "it is clean", poll_s=1.0)


def _ends(stand: dict[str, Any]) -> set[tuple[str, str]]:
    """Return the state of the run and the status of the server with which it may end."""
    if stand["way"] == "back":
        return {("undone", stand["ends"]), *(_arrived(stand["instead"]) if stand["instead"] else ())}
    return _arrived(stand["ends"])


def _arrived(status: str) -> set[tuple[str, str]]:
    return {("done", status), ("parked", "VERIFY_RESIZE")}


def _status(cloud: OldCloud, servers: dict[str, Any], server: str) -> str:
    if server in servers:
        return str(servers[server]["status"])
    try:
        return str(cloud.api.get("compute", f"/servers/{server}")["server"]["status"])
    except NotFound:
        return "DELETED"


def test_there_is_an_archive() -> None:
    assert ARCHIVES
