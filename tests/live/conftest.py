"""Fixtures of the tests that start a cloud by `whimbrel up`."""

from collections.abc import Iterator

import pytest

from tests.live.running_cloud import RunningCloud, running_cloud


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCloud]:
    with running_cloud(tmp_path_factory.mktemp("cloud")) as running:
        yield running
