"""Placement as a process of its own, with as many hosts as one likes, to be measured from outside.

A host has 64 VCPU (4.0 times), 256 GiB, 4 TB, 25 traits and one of three aggregates; every tenth is gold. A nested one
has a network card as a child, with bandwidth and virtual functions.
"""

import socket
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import httpx
import os_traits
import sqlalchemy as sa
from cloud import memory_mib, processor_s

from whimbrel.adapters.sql.schema import prepare
from whimbrel.adapters.sql.tables import placement as tables

TRAITS = sorted(name for name in os_traits.get_traits("HW_CPU_X86_") if not name.startswith("HW_CPU_X86_AMD"))[:24]
AGGREGATES = [str(uuid.UUID(int=number + 1)) for number in range(3)]
PLAIN = "resources=VCPU:1,MEMORY_MB:512,DISK_GB:5"
PICKY = f"{PLAIN}&required={TRAITS[0]},CUSTOM_GOLD,!CUSTOM_BRONZE&member_of={AGGREGATES[0]}"
CARD = "resources_NET=NET_BW_EGR_KILOBIT_PER_SEC:1000,SRIOV_NET_VF:1&required_NET=CUSTOM_PHYSNET_0"
GRANULAR = f"{PLAIN}&{CARD}&group_policy=none"
ISOLATED = f"resources_C=VCPU:1,MEMORY_MB:512&{CARD.replace('_NET=', '_N=')}&group_policy=isolate&same_subtree=_C,_N"
SIZES = {
    "VCPU": (64, 4.0),
    "MEMORY_MB": (262144, 1.0),
    "DISK_GB": (4000, 1.0),
    "NET_BW_EGR_KILOBIT_PER_SEC": (10_000_000, 1.0),
    "SRIOV_NET_VF": (64, 1.0),
}


def host_id(number: int) -> str:
    return str(uuid.UUID(int=(1 << 64) + number))


def card_id(number: int) -> str:
    return str(uuid.UUID(int=(2 << 64) + number))


def fill(url: str, hosts: int, *, nested: bool) -> None:
    """Make a database with so many hosts."""
    prepare(url, "placement")
    engine = sa.create_engine(f"{url}/placement.sqlite")
    names = [*TRAITS, "CUSTOM_GOLD", "CUSTOM_PHYSNET_0", "CUSTOM_BRONZE"]
    with engine.begin() as tx:
        tx.execute(sa.text("PRAGMA synchronous = OFF"))
        tx.execute(sa.insert(tables.traits).prefix_with("OR IGNORE"), [{"name": name} for name in names])
        tx.execute(sa.insert(tables.resource_classes).prefix_with("OR IGNORE"), [{"name": name} for name in SIZES])
        for start in range(0, hosts, 5000):
            _fill_some(tx, range(start, min(start + 5000, hosts)), nested)
    engine.dispose()


def _fill_some(tx: sa.Connection, numbers: range, nested: bool) -> None:
    providers, stocks, traits = [], [], []
    for number in numbers:
        host, card = host_id(number), card_id(number)
        providers.append(_provider(host, None, host, f"host{number}"))
        stocks += [_stock(host, name) for name in list(SIZES)[:3]]
        traits += [{"provider": host, "trait": name} for name in [*TRAITS, *["CUSTOM_GOLD"] * (number % 10 == 0)]]
        if nested:
            providers.append(_provider(card, host, host, f"host{number}_card"))
            stocks += [_stock(card, name) for name in list(SIZES)[3:]]
            traits.append({"provider": card, "trait": "CUSTOM_PHYSNET_0"})
    tx.execute(sa.insert(tables.providers), providers)
    tx.execute(sa.insert(tables.inventories), stocks)
    tx.execute(sa.insert(tables.provider_traits), traits)
    members = [{"provider": host_id(number), "aggregate": AGGREGATES[number % 3]} for number in numbers]
    tx.execute(sa.insert(tables.provider_aggregates), members)


def _provider(this: str, parent: str | None, root: str, name: str) -> dict[str, Any]:
    return {"uuid": this, "name": name, "generation": 0, "parent": parent, "root": root}


def _stock(provider: str, name: str) -> dict[str, Any]:
    total, ratio = SIZES[name]
    units = {"reserved": 0, "min_unit": 1, "max_unit": total, "step_size": 1, "allocation_ratio": ratio, "used": 0}
    return {"provider": provider, "resource_class": name, "total": total, **units}


class Placement:
    """`whimbrel placement` on a SQLite database with so many hosts. Use as a context manager."""

    def __init__(self, hosts: int, *, nested: bool) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="whimbrel-bench-")
        self._url = f"sqlite:///{self._directory.name}"
        fill(self._url, hosts, nested=nested)

    def __enter__(self) -> "Placement":
        port = _free_port()
        log = (Path(self._directory.name) / "log").open("wb")
        command = [sys.executable, "-m", "whimbrel", "placement", "--db", self._url, "--port", str(port)]
        self._process = subprocess.Popen([*command, "--auth", "noauth2"], stdout=log, stderr=log)
        headers = {"x-auth-token": "admin", "openstack-api-version": "placement 1.39"}
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=120)
        began = time.monotonic()
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > began + 30:
                raise RuntimeError((Path(self._directory.name) / "log").read_text())
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)
        self._directory.cleanup()

    def _answers(self) -> bool:
        try:
            return self.client.get("/").status_code == 200
        except httpx.HTTPError:
            return False

    def processor_s(self) -> float:
        return processor_s(self._process.pid)

    def memory_mib(self) -> float:
        return memory_mib(self._process.pid)

    def ask(self, path: str) -> httpx.Response:
        answer = self.client.get(path)
        if answer.status_code != 200:
            raise RuntimeError(f"GET {path}: {answer.status_code} {answer.text}")
        return answer

    def send(self, method: str, path: str, body: Any) -> None:
        answer = self.client.request(method, path, json=body)
        if answer.status_code >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text}")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
