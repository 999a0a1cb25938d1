"""The pytest plugin: fixtures `whimbrel_cloud` and `whimbrel_clouds`, and the marker `whimbrel`. docs/testing.md.

Nothing is imported or started until a test asks for a fixture.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from whimbrel.testing.clouds import CloudForTests, Clouds


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "whimbrel(settings): text of the cloud.toml of the test's `whimbrel_cloud`")


@pytest.fixture(scope="session")
def whimbrel_clouds(tmp_path_factory: pytest.TempPathFactory) -> "Clouds":
    """Return what starts clouds, for tests that need several: `with whimbrel_clouds.started() as cloud`."""
    from whimbrel.testing.clouds import Clouds

    return Clouds(tmp_path_factory.mktemp("whimbrel"))


@pytest.fixture
def whimbrel_cloud(
    request: pytest.FixtureRequest, whimbrel_clouds: "Clouds", monkeypatch: pytest.MonkeyPatch
) -> "Iterator[CloudForTests]":
    """Return a new cloud for one test; OS_CLIENT_CONFIG_FILE and OS_CLOUD name it meanwhile."""
    marker = request.node.get_closest_marker("whimbrel")
    settings = marker.kwargs.get("settings", "") if marker else ""
    with whimbrel_clouds.started(settings) as cloud:
        for name, value in cloud.environment().items():
            monkeypatch.setenv(name, value)
        yield cloud
