"""`whimbrel host fence`: ask the fence device of a host whether it has power, or have it cut the power."""

import sys
from urllib.parse import quote

import msgspec
from rich.prompt import Confirm

from whimbrel.api.views.host_power import HostPower, HostPowerAnswer
from whimbrel.api.views.hosts import HostState, HostStateAnswer
from whimbrel.cli import SAYS_NO, name_lookup, terminal
from whimbrel.cli.client import Api
from whimbrel.cli.move import HostArgument, Where
from whimbrel.cli.output_format import Json
from whimbrel.domain.errors import Invalid

AS_USUAL = Where()


def fence(
    host: HostArgument,
    /,
    *,
    power_off: bool = False,
    status: bool = False,
    yes: bool = False,
    json: Json = False,
    where: Where = AS_USUAL,
) -> int:
    """Cut the power of a host by its fence device, or show whether it has power.

    Cutting the power ends all its servers at once, without a shutdown; that alone does not start them elsewhere. The
    command ends when the device has confirmed that the machine is off. Declare devices with [[fence]] in the settings.

    Parameters
    ----------
    power_off
        Cut the power.
    status
        Show whether the host has power.
    yes
        Do not ask before the power is cut.
    """
    if power_off == status:
        raise Invalid("give one of --power-off and --status")
    if power_off and not yes and (json or not sys.stdin.isatty()):
        raise Invalid("there is no terminal to ask on: use --yes to cut the power, or --status to see it")
    url = f"/whimbrel/hosts/{quote(host, safe='')}"
    with where.api() as api, name_lookup.of_hosts():
        if power_off:
            if not yes and not _agreed(msgspec.convert(api.get("compute", url), HostStateAnswer).host):
                return SAYS_NO
            _cut(api, url)
        answer = api.get("compute", f"{url}/power")
    if json:
        terminal.write_json(answer)
    else:
        print(sentence(msgspec.convert(answer, HostPowerAnswer).power))
    return 0


def question(host: HostState) -> str:
    """Return what an operator is asked before the power is cut."""
    servers = f"{host.servers} server{'s' if host.servers != 1 else ''}"
    return f"Host {host.name} is {host.state} and has {servers}, which would end at once. Cut its power?"


def sentence(power: HostPower) -> str:
    return f"host {power.host}: power is {power.power}, says its {power.device} device at {power.address}"


def _agreed(host: HostState) -> bool:
    return Confirm.ask(question(host), console=terminal.console(), default=False)


def _cut(api: Api, url: str) -> None:
    api.put("compute", f"{url}/power", {"power": {"state": "off"}})
