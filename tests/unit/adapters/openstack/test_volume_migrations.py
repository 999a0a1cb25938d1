"""The report of a swapped volume to Cinder: once, because Cinder would swap the volumes back if it came again.

Source: migrate_volume_completion in cinder/volume/api.py and manager.py, finish_volume_migration of its volumes.
"""

from typing import Any

import httpx
import msgspec
import pytest

from tests.httpx_service import HttpxService
from whimbrel.adapters.openstack.volumes import HttpVolumes
from whimbrel.domain.errors import Unavailable

OLD, NEW = "3f0c5a0e-0000-4000-8000-000000000001", "3f0c5a0e-0000-4000-8000-000000000002"


class Cinder:
    """A volume that is migrated, and its target. silent: answers after the completion that are lost."""

    def __init__(self, *, silent: int = 0) -> None:
        self.statuses: dict[str, str | None] = {OLD: "migrating", NEW: f"target:{OLD}"}
        self.reports: list[Any] = []
        self._silent = silent

    def __call__(self, request: httpx.Request) -> httpx.Response:
        volume_id = request.url.path.split("/")[3]
        if request.method == "GET":
            if volume_id not in self.statuses:
                return httpx.Response(404, json={"itemNotFound": {"message": "not found", "code": 404}})
            shown = {"id": volume_id, "status": "in-use", "size": 1, "migration_status": self.statuses[volume_id]}
            return httpx.Response(200, json={"volume": shown})
        sent = msgspec.json.decode(request.content)["os-migrate_volume_completion"]
        assert sent["new_volume"] == NEW
        self.reports.append(sent["error"])
        self.statuses[OLD] = "error" if sent["error"] else "success"
        del self.statuses[NEW]
        if self._silent:
            self._silent -= 1
            raise httpx.ReadTimeout("silence")
        return httpx.Response(200, json={"save_volume_id": OLD})

    def volumes(self) -> HttpVolumes:
        client = httpx.AsyncClient(transport=httpx.MockTransport(self), base_url="http://cinder/v3")
        return HttpVolumes(HttpxService(client, "volume"))


@pytest.mark.parametrize("failed", [False, True])
async def test_a_migration_is_reported_once(failed: bool) -> None:
    cinder = Cinder()
    volumes = cinder.volumes()
    for _ in range(3):
        assert await volumes.complete_migration(OLD, NEW, failed=failed) == OLD
    assert cinder.reports == [failed]
    assert (await volumes.volume(OLD)).migration_status == ("error" if failed else "success")


async def test_after_a_lost_answer_it_is_not_reported_again() -> None:
    cinder = Cinder(silent=1)
    volumes = cinder.volumes()
    with pytest.raises(Unavailable):
        await volumes.complete_migration(OLD, NEW)
    assert await volumes.complete_migration(OLD, NEW) == OLD
    assert cinder.reports == [False]


async def test_a_completion_under_way_is_waited_for() -> None:
    cinder = Cinder()
    cinder.statuses[OLD] = "completing"
    with pytest.raises(Unavailable, match="being completed"):
        await cinder.volumes().complete_migration(OLD, NEW)
    assert cinder.reports == []


async def test_one_that_was_given_up_is_completed_if_a_guest_uses_the_target() -> None:
    """Seed 194 of 15 steps: Cinder's request got no answer, but was accepted, and the guest had the new volume."""
    cinder = Cinder()
    cinder.statuses[OLD] = "error"
    assert await cinder.volumes().complete_migration(OLD, NEW) == OLD
    assert cinder.reports == [False]
    assert (await cinder.volumes().volume(OLD)).migration_status == "success"


@pytest.mark.parametrize(
    "statuses", [{}, {OLD: "success"}, {OLD: "migrating", NEW: "deleting"}, {OLD: None, NEW: None}]
)
async def test_no_other_migration_is_touched(statuses: dict[str, str | None]) -> None:
    cinder = Cinder()
    cinder.statuses = statuses
    for failed in (True, False):
        assert await cinder.volumes().complete_migration(OLD, NEW, failed=failed) == OLD
    assert cinder.reports == []
