"""The books of a cloud: what its records say, what its hosts really run, and what Placement has given away.

Law: nothing is believed that could be asked. Records come from the compute API, guests from the agents of the hosts,
claims from the placement API; three sources that do not know of each other.
"""

import asyncio
from typing import Any

import httpx
import msgspec
from rich.table import Table
from rich.text import Text

from whimbrel.adapters.bus.http import HttpAgents
from whimbrel.cli.client import Api
from whimbrel.cli.terminal import plain_table
from whimbrel.datadir import DataDir
from whimbrel.domain.guest import Guest
from whimbrel.domain.ids import HostName
from whimbrel.domain.resources import of_flavor

POWER_OF = {"ACTIVE": "running", "SHUTOFF": "stopped"}


class Account(msgspec.Struct, kw_only=True):
    """One owner of something: a server, or whatever else has a guest or a claim and should not."""

    id: str
    name: str
    record: str = "none"
    guests: list[str] = []
    claims: list[str] = []
    faults: list[str] = []


class Books(msgspec.Struct, kw_only=True):
    accounts: list[Account]
    open_moves: list[str]
    quota_faults: list[str]

    @property
    def agree(self) -> bool:
        return not self.open_moves and not self.quota_faults and not any(each.faults for each in self.accounts)

    def faults(self) -> list[str]:
        """Say everything that is wrong, one sentence each."""
        moves = [f"move {each} is not over" for each in self.open_moves]
        return [f"{each.name}: {fault}" for each in self.accounts for fault in each.faults] + moves + self.quota_faults


def read(api: Api, home: DataDir) -> Books:
    """Ask everybody. api: logged in as an administrator. For a cloud in which nothing is under way."""
    servers = {each["id"]: each for each in api.get("compute", "/servers/detail?all_tenants=1")["servers"]}
    cells = {each["name"]: each["hosts"] for each in api.get("compute", "/whimbrel/cells")["cells"]}
    guests = asyncio.run(_guests(home, cells))
    claims = _claims(api)
    names = dict.fromkeys([*servers, *(guest.key.server for _, guest in guests), *claims])
    return Books(
        accounts=[
            _account(
                each,
                servers.get(each),
                [(host, guest) for host, guest in guests if guest.key.server == each],
                claims.get(each, {}),
            )
            for each in names
        ],
        open_moves=[move["id"] for move in api.get("compute", "/whimbrel/moves?open=true&kind=any")["moves"]],
        quota_faults=_quota_faults(api, list(servers.values())),
    )


def table(books: Books) -> Table:
    """Show who has what."""
    shown = plain_table("server", "its record", "guests on the hosts", "claims in Placement", "")
    for each in books.accounts:
        verdict = Text("; ".join(each.faults), "bold red") if each.faults else Text("agrees", "green")
        shown.add_row(each.name, each.record, "\n".join(each.guests), "\n".join(each.claims), verdict)
    return shown


def _account(id_: str, server: Any, guests: list[tuple[str, Guest]], claims: dict[str, dict[str, int]]) -> Account:
    account = Account(
        id=id_,
        name=server["name"] if server else f"({id_})",
        guests=[f"{host}: {_guest(guest)}" for host, guest in guests],
        claims=[f"{host}: {_amounts(amounts)}" for host, amounts in claims.items()],
    )
    if server is None:
        account.faults = ["there is no such server"]
        return account
    host, size, status = server["OS-EXT-SRV-ATTR:host"], server["flavor"], server["status"]
    account.record = f"{host or 'on no host'}: {status}, {size['vcpus']} cpu, {size['ram']} MiB"
    if host is None:  # none was found for it when it was made
        account.faults = ["it is on no host"] if guests or claims or status != "ERROR" else []
        return account
    want = of_flavor(size["vcpus"], size["ram"], size["disk"], size["ephemeral"], size["swap"])
    if claims != {host: want}:
        account.faults.append(f"its claim should be {_amounts(want)} on {host}")
    wanted_guest = (host, POWER_OF.get(status), size["vcpus"], size["ram"])
    if [(at, guest.power, guest.vcpus, guest.memory_mib) for at, guest in guests] != [wanted_guest]:
        account.faults.append(f"it should have one guest, {POWER_OF.get(status, status)}, on {host}")
    return account


async def _guests(home: DataDir, cells: dict[str, list[str]]) -> list[tuple[str, Guest]]:
    """Ask each host on the bus of its own cell."""
    running, secret = home.running(), home.agents_secret()
    async with httpx.AsyncClient() as client:
        buses = {cell: HttpAgents(running.agents_url(cell), secret, client) for cell in cells}
        places = [(cell, host) for cell, hosts in cells.items() for host in hosts]
        return [(host, guest) for cell, host in places for guest in await buses[cell].at(HostName(host)).guests()]


def _claims(api: Api) -> dict[str, dict[str, dict[str, int]]]:
    """Give what Placement has given away: owner -> host -> resource class -> amount."""
    claims: dict[str, dict[str, dict[str, int]]] = {}
    for provider in api.get("placement", "/resource_providers")["resource_providers"]:
        held = api.get("placement", f"/resource_providers/{provider['uuid']}/allocations")["allocations"]
        for owner, allocation in held.items():
            claims.setdefault(owner, {})[provider["name"]] = allocation["resources"]
    return claims


def _quota_faults(api: Api, servers: list[Any]) -> list[str]:
    """Compare what each project's quota counts with what its servers are."""
    faults = []
    for project in sorted({server["tenant_id"] for server in servers}):
        counted = api.get("compute", f"/limits?tenant_id={project}")["limits"]["absolute"]
        sizes = [server["flavor"] for server in servers if server["tenant_id"] == project]
        real = {
            "totalInstancesUsed": len(sizes),
            "totalCoresUsed": sum(size["vcpus"] for size in sizes),
            "totalRAMUsed": sum(size["ram"] for size in sizes),
        }
        faults += [
            f"quota: {name} of project {project} is {counted[name]}, its servers make {amount}"
            for name, amount in real.items()
            if counted[name] != amount
        ]
    return faults


def _guest(guest: Guest) -> str:
    return f"{guest.power}, {guest.vcpus} cpu, {guest.memory_mib} MiB"


def _amounts(amounts: dict[str, int]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in sorted(amounts.items(), reverse=True))
