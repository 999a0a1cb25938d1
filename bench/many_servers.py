"""Many servers, written straight into the databases of a cloud that is down: all are like one that the cloud made."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

from cloud import User

Names = dict[str, str]
OWN = ("server", "port", "run", "move", "volume", "attachment")
"""What each server has of its own: names that are ids."""


async def make_one(user: User) -> Names:
    """Create a server with a port and a volume; return their names in the databases, and the host."""
    network = (await user.ask("POST", "/network/v2.0/networks", {"network": {"name": "n"}}))["network"]["id"]
    subnet = {"network_id": network, "ip_version": 4, "cidr": "10.0.0.0/8"}
    await user.ask("POST", "/network/v2.0/subnets", {"subnet": subnet})
    root = {"source_type": "image", "uuid": user.image, "destination_type": "local", "boot_index": 0}
    more = {"source_type": "blank", "destination_type": "volume", "volume_size": 1, "boot_index": -1}
    resources = {
        "name": "s",
        "flavorRef": "1",
        "imageRef": user.image,
        "networks": [{"uuid": network}],
        "block_device_mapping_v2": [root, more],
    }
    server = (await user.call("POST", "/servers", {"server": resources}))["server"]["id"]
    await user.until(server, "ACTIVE")
    [port] = (await user.ask("GET", f"/network/v2.0/ports?device_id={server}"))["ports"]
    [run] = (await user.call("GET", f"/whimbrel/moves?kind=any&server={server}"))["moves"]
    [volume] = (await user.call("GET", f"/servers/{server}/os-volume_attachments"))["volumeAttachments"]
    host = (await user.look(server))["OS-EXT-SRV-ATTR:host"]
    return {
        "server": server,
        "port": port["id"],
        "run": run["id"],
        "volume": volume["volumeId"],
        "attachment": volume["attachment_id"],
        "mac": port["mac_address"],
        "address": port["fixed_ips"][0]["ip_address"],
        "host": host,
        "action": f"req-{server}",
    }


def fill(databases: Path, like: Names, servers: int) -> None:
    """Copy all rows that name the server or what it has, with other names in them; spread over the hosts."""
    providers = dict(query(databases / "placement.sqlite", "SELECT name, uuid FROM providers WHERE parent IS NULL"))
    zones = dict(
        query(
            databases / "global.sqlite",
            "SELECT h.host, json_extract(a.metadata, '$.availability_zone') FROM aggregate_hosts AS h"
            " JOIN aggregates AS a ON a.id = h.aggregate_id",
        )
    )
    hosts = [{"host": name, "provider": uuid, "zone": zones[name]} for name, uuid in sorted(providers.items())]
    others = [host for host in hosts if host["host"] != like.get("target")]
    [its] = [host for host in hosts if host["host"] == like["host"]]
    like = {name: value for name, value in {**like, **its}.items() if name != "target"}
    copies = [_names(like, number, others[number % len(others)]) for number in range(1, servers)]
    for file in sorted(databases.glob("*.sqlite")):
        with closing(sqlite3.connect(file)) as connection:
            for table in _tables(connection):
                _copy(connection, table, like, copies)
            if file.stem == "placement":
                connection.execute(
                    "UPDATE inventories SET used = (SELECT coalesce(sum(amount), 0) FROM allocations AS a WHERE"
                    " a.provider = inventories.provider AND a.resource_class = inventories.resource_class)"
                )
            connection.commit()


def _names(like: Names, number: int, host: Names) -> Names:
    others = {name: str(UUID(int=UUID(like[name]).int ^ number)) for name in OWN if name in like}
    high, low = divmod(number, 250)
    return {
        **others,
        "mac": f"fa:16:3f:00:{high:02x}:{low:02x}",
        "address": f"10.9.{high}.{low + 1}",
        **host,
        "action": f"req-{others['server']}",
    }


def _tables(connection: sqlite3.Connection) -> list[str]:
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
    return [name for (name,) in found if name not in ("alembic_version", "evidence")]


def _copy(connection: sqlite3.Connection, table: str, like: Names, copies: list[Names]) -> None:
    cursor = connection.execute(f"SELECT * FROM {table}")
    columns = [each[0] for each in cursor.description]
    marks = [like[name] for name in OWN if name in like]
    rows = [row for row in cursor if any(mark in _text(value) for value in row for mark in marks)]
    places = ", ".join("?" * len(columns))
    for row in rows:
        connection.executemany(f"INSERT INTO {table} VALUES ({places})", _copies(columns, row, like, copies))


def _copies(columns: list[str], row: tuple[Any, ...], like: Names, copies: list[Names]) -> Iterator[list[Any]]:
    for names in copies:
        yield [
            None if name == "number" else _renamed(value, like, names) for name, value in zip(columns, row, strict=True)
        ]


def _renamed(value: Any, like: Names, names: Names) -> Any:
    if not isinstance(value, str | bytes):
        return value
    text = _text(value)
    for name, old in like.items():
        if name != "host":
            text = text.replace(old, names[name])
        elif text == old or text.endswith(f"/{old}"):
            text = text.removesuffix(old) + names[name]
        else:
            text = text.replace(f'"{old}"', f'"{names[name]}"')
    return text.encode() if isinstance(value, bytes) else text


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value if isinstance(value, str) else ""


def query(file: Path, statement: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(statement).fetchall()
