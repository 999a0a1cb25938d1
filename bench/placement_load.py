"""A load generator for Placement: sends requests of one kind, checks every answer, prints one JSON line.

Invariant: it ends in an error at the first answer with an unexpected status or number of candidates. The same
seed sends the same requests, and `swap` moves the servers that `put` with the same seed and number has placed.
"""

import asyncio
import json
import re
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any, NamedTuple

import msgspec
from cyclopts import run
from placement_hosts import CANDIDATES, host_id, query, suitable

OWNER = {"project_id": "bench", "user_id": "bench", "consumer_type": "INSTANCE"}
AMOUNTS = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 5}
HEAD = "{method} {path} HTTP/1.1\r\nhost: bench\r\nx-auth-token: admin\r\nopenstack-api-version: placement 1.39\r\n"
LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)
TRY_AGAIN = "409 placement.concurrent_update"


class Ask(NamedTuple):
    """A request with the answers that it may get."""

    method: str
    path: str
    body: Any = None
    expected: tuple[str, ...] = ("204",)
    found: int | None = None  # how many candidates

    def wanted(self) -> str:
        return " or ".join(self.expected) + ("" if self.found is None else f" with {self.found} candidates")

    def as_bytes(self) -> bytes:
        head = HEAD.format(method=self.method, path=self.path)
        if self.body is None:
            return f"{head}\r\n".encode()
        body = msgspec.json.encode(self.body)
        return f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


class Unexpected(Exception):
    """An answer that is not what it should be."""


class Candidates(msgspec.Struct):
    allocation_requests: list[msgspec.Raw]
    provider_summaries: dict[str, msgspec.Raw]


class Errors(msgspec.Struct):
    errors: list[dict[str, Any]]


# The kinds of request: one of number `number` of those with a seed


def candidates(name: str, limit: int, hosts: int, seed: int, number: int) -> Ask:
    path = f"/allocation_candidates?{query(name, Random(f'{seed} {number}'))}&limit={limit}"
    return Ask("GET", path, expected=("200",), found=min(limit, suitable(name, hosts)))


def put(hosts: int, seed: int, number: int) -> Ask:
    claim = _claim(host_id(2 * number % hosts), AMOUNTS, None)
    return Ask("PUT", f"/allocations/{_consumer(3, seed, number)}", claim)


def swap(hosts: int, seed: int, number: int) -> Ask:
    """Return the source's claim to the move and the target's to the server, in one write."""
    source, target = host_id(2 * number % hosts), host_id((2 * number + 1) % hosts)
    move, server = _consumer(4, seed, number), _consumer(3, seed, number)
    body = {move: _claim(source, AMOUNTS, None), server: _claim(target, AMOUNTS, 1)}
    return Ask("POST", "/allocations", body)


def race(seed: int, number: int) -> Ask:
    """Want one VCPU of the first host, as all others do; who comes too late gets 409."""
    path = f"/allocations/{_consumer(5, seed, number)}"
    late = "409 placement.undefined_code"
    return Ask("PUT", path, _claim(host_id(0), {"VCPU": 1}, None), expected=("204", late, TRY_AGAIN))


def _consumer(kind: int, seed: int, number: int) -> str:
    return str(uuid.UUID(int=(kind << 64) + (seed << 32) + number))


def _claim(host: str, amounts: dict[str, int], generation: int | None) -> dict[str, Any]:
    return {"allocations": {host: {"resources": amounts}}, "consumer_generation": generation, **OWNER}


def kind(name: str, hosts: int, limit: int, seed: int) -> Callable[[int], Ask]:
    """Return the function that makes requests of a kind, by number."""
    if name in CANDIDATES:
        return partial(candidates, name, limit, hosts, seed)
    return {"put": partial(put, hosts, seed), "swap": partial(swap, hosts, seed), "race": partial(race, seed)}[name]


# Sending them


class Client:
    """One connection that is kept, with one request under way at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.latencies_s: list[float] = []
        self.statuses: Counter[str] = Counter()

    async def send_all(self, requests: Iterator[Ask]) -> None:
        """Send what is left of the requests that all clients share, one after the other."""
        for ask in requests:
            while await self._send(ask) == TRY_AGAIN:
                pass

    async def _send(self, ask: Ask) -> str:
        request = ask.as_bytes()
        began = time.perf_counter()
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = LENGTH.search(head)
        body = await self._reader.readexactly(int(length[1])) if length else b""
        self.latencies_s.append(time.perf_counter() - began)
        status = _status(head, body)
        self.statuses[status] += 1
        if status not in ask.expected or (ask.found is not None and _found(body) != ask.found):
            raise Unexpected(f"{ask.method} {ask.path}: not {ask.wanted()} but {status} {body[:1000]!r}")
        return status


def _status(head: bytes, body: bytes) -> str:
    """Return the status of an answer, of a refusal with its code."""
    status = head.split(b" ", 2)[1].decode()
    return f"{status} {msgspec.json.decode(body, type=Errors).errors[0]['code']}" if status == "409" else status


def _found(body: bytes) -> int:
    """Count candidates; without a summary of any provider there are none."""
    answer = msgspec.json.decode(body, type=Candidates)
    return len(answer.allocation_requests) if answer.provider_summaries else 0


async def send(requests: Iterator[Ask], urls: list[str], clients: int) -> tuple[list[Client], float]:
    """Send requests by so many clients, in turns to each URL; give the clients and the seconds that it took."""
    places = [url.removeprefix("http://").split(":") for url in urls]
    those = [Client(*await asyncio.open_connection(*places[number % len(places)])) for number in range(clients)]
    began = time.perf_counter()
    await asyncio.gather(*(client.send_all(requests) for client in those))
    return those, time.perf_counter() - began


def load(
    request: str, *, url: list[str], hosts: int, count: int, clients: int = 1, seed: int = 1, limit: int = 10
) -> None:
    """Send so many requests.

    Parameters
    ----------
    request
        put, swap, race, or a kind of search for candidates: see placement_hosts.py.
    url
        Where Placement is; several processes of one Placement have one each.
    hosts
        How many hosts it has.
    limit
        How many candidates are asked for.
    """
    make = kind(request, hosts, limit, seed)
    requests = [make(number) for number in range(count)]  # made before, so that it takes no time between them
    try:
        done, wall_s = asyncio.run(send(iter(requests), url, clients))
    except Unexpected as answer:
        sys.exit(str(answer))
    latencies_ms = sorted(latency * 1000 for client in done for latency in client.latencies_s)
    statuses = sum((client.statuses for client in done), Counter[str]())
    figures = {
        "wall_s": wall_s,
        "per_s": len(latencies_ms) / wall_s,
        "p50_ms": latencies_ms[len(latencies_ms) // 2],
        "p99_ms": latencies_ms[len(latencies_ms) * 99 // 100],
    }
    rounded = {key: round(value, 3) for key, value in figures.items()}
    named = {"request": request, "clients": clients, "n": len(latencies_ms)}
    print(json.dumps({**named, **rounded, "statuses": statuses}))


if __name__ == "__main__":
    run(load)
