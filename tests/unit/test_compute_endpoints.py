"""Where tests beside real OpenStack services cannot have the compute endpoint of the catalog, CI says so."""

import socket
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from tests.openstack.start import free_port
from tests.openstack_services import check_free


@pytest.fixture
def taken() -> Iterator[int]:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        port: int = listening.getsockname()[1]
        yield port


def test_a_port_that_is_taken_fails_in_ci_and_is_skipped_elsewhere(taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    url = urlsplit(f"http://127.0.0.1:{taken}/compute/v2.1")
    monkeypatch.delenv("CI_LIVE", raising=False)
    with pytest.raises(pytest.skip.Exception, match="has to be a free port"):
        check_free(url)
    monkeypatch.setenv("CI_LIVE", "1")
    with pytest.raises(pytest.fail.Exception, match="has to be a free port"):
        check_free(url)


def test_the_services_are_started_with_a_port_that_is_free(taken: int) -> None:
    port = free_port(taken)
    assert port > taken
    check_free(urlsplit(f"http://127.0.0.1:{port}/compute/v2.1"))
