"""Every HTTP server of every process keeps the limits, whichever service answers behind it."""

import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.live.running_cloud import further_conductor, running_cloud, running_placement
from tests.processes import http

TOKENS = b"X-Auth-Token: a\r\nX-Auth-Token: a\r\n"
HEADER_TIMEOUT_S = 4.0
"""Longer than a busy machine lets this process or a front end stand still between a connection and its first bytes."""
LONG = b"X-Long: " + b"a" * 70_000 + b"\r\n"


def status(url: str, path: str, lines: bytes) -> int:
    """Return the status of a GET with these header lines."""
    at = urlsplit(url)
    with socket.create_connection((at.hostname, at.port)) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: cloud\r\n".encode() + lines + b"\r\n")
        return int(connection.recv(12).removeprefix(b"HTTP/1.1 "))


def front_ends(directory: Path) -> Iterator[tuple[str, str]]:
    """Start all kinds of processes; return each URL with each path that answers there."""
    settings = f"\n[metrics]\nport = 0\n[http]\nheader_timeout_s = {HEADER_TIMEOUT_S}\n"
    with running_cloud(directory, settings=settings) as cloud, running_placement(directory) as placement:
        url = cloud.home.running().url
        with socket.create_connection((urlsplit(url).hostname, urlsplit(url).port)) as half:
            half.sendall(b"GET /")
            for service in http.get(url).json()["services"]:
                yield url, f"{service}/"
            with further_conductor(cloud, directory) as conductor:
                yield conductor, "/metrics"
            yield placement, "/"
            yield placement, "/metrics"
            assert half.recv(12) == b"HTTP/1.1 408"


@pytest.mark.long
def test_every_front_end_has_limits(tmp_path: Path) -> None:
    found = list[str]()
    for url, path in front_ends(tmp_path):
        found.append(path)
        assert status(url, path, TOKENS) == 400, path
        assert status(url, path, LONG) == 431, path
    assert {"/identity/", "/compute/", "/placement/", "/image/", "/network/", "/volume/", "/internal/"} <= set(found)
