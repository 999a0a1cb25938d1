"""`whimbrel host evacuate`: evacuate all servers of a dead host, several at once, and show how far it is."""

import time
from collections.abc import Callable, Mapping
from urllib.parse import quote

import msgspec
from rich.console import Console, RenderableType
from rich.console import Group as Lines
from rich.text import Text

from whimbrel.api.views.host_evacuations import HostEvacuationAnswer, HostEvacuationState
from whimbrel.cli import SAYS_NO, name_lookup, terminal
from whimbrel.cli.client import Api
from whimbrel.cli.listing import Column, Listing
from whimbrel.cli.move import POLL_S, HostArgument, Where
from whimbrel.cli.progress_bar import bar

AS_USUAL = Where()
LEFT = (Column("server", "name"), Column("id", "id"), Column("why", "reason"))


def evacuate(
    host: HostArgument,
    /,
    *,
    at_once: int | None = None,
    per_minute: int | None = None,
    detach: bool = False,
    json: bool = False,
    where: Where = AS_USUAL,
) -> int:
    """Evacuate the servers of a dead host to other hosts, and wait until none is under way.

    Nothing is built elsewhere before it is evident that the host is dead: its fence device says that it is off, it has
    fenced itself, its agent says that the guest is gone, or an administrator says so (whimbrel host force-down). Until
    then this waits, and says for what. It can be stopped and repeated at any time: evacuations go on by themselves.
    The contents of local disks are lost. The most important servers go first: a number evacuation_priority in their
    metadata, or whimbrel:evacuation_priority in the extra specs of their flavor.

    Parameters
    ----------
    at_once
        How many servers are evacuated at once. Default: the rule evacuations_at_once.
    per_minute
        How many evacuations of this host begin in a minute, whoever requests them; 0: any number. Default: the rule
        evacuations_per_minute.
    detach
        Begin as many as may begin now, and do not wait.
    json
        One JSON document at the end instead of text.
    """
    console = None if json else terminal.console()
    with where.api() as api, name_lookup.of_hosts(), bar(console) as shown:
        task = shown.add_task("", total=None, visible=False)  # until the cloud has accepted it
        reasons = WaitReasons(console)

        def show(state: HostEvacuationState) -> None:
            reasons.show(state)
            over = state.arrived + len(state.left)
            total = over + state.under_way + state.to_go
            shown.update(task, description=progress_of(state), completed=over, total=total, visible=True)

        pace = {"at_once": at_once, "per_minute": per_minute}
        found = follow(api, host, pace, detach=detach, show=show)
    if json:
        terminal.write_json({"evacuation": found})
    else:
        terminal.console().print(summary(found))
    return SAYS_NO if found.left else 0


def follow(
    api: Api,
    host: str,
    pace: Mapping[str, int | None],
    *,
    detach: bool,
    show: Callable[[HostEvacuationState], None],
    sleep: Callable[[float], None] = time.sleep,
) -> HostEvacuationState:
    """Repeat the request until nothing is under way. Raises: NotFound; Refused: the host is up; Unavailable."""
    url = f"/whimbrel/hosts/{quote(host, safe='')}/evacuation"
    asked: dict[str, float] = {name: value for name, value in pace.items() if value is not None}
    while True:
        state = msgspec.convert(api.post("compute", url, {"evacuation": asked}), HostEvacuationAnswer).evacuation
        show(state)
        if state.is_over or detach:
            return state
        asked["since"] = state.since
        sleep(POLL_S)


class WaitReasons:
    """What evacuations wait for: one line each time that it changes, because a bar shows only as much as fits."""

    def __init__(self, console: Console | None) -> None:
        self._console = console
        self._shown: str | None = None
        self._paced = False

    def show(self, state: HostEvacuationState) -> None:
        if state.waiting and state.why and state.why != self._shown:
            self._shown = state.why
            self._say(state, state.why)
        if state.next_in_s is not None and not self._paced:
            self._paced = True
            self._say(state, f"{pace_of(state)}; other servers wait for that")

    def _say(self, state: HostEvacuationState, reason: str) -> None:
        if self._console:
            self._console.print(Text(f"host {state.host}: {reason}"))


def progress_of(state: HostEvacuationState) -> str:
    """Return the state as a short sentence."""
    numbers = f"host {state.host}: {state.arrived} evacuated, {state.under_way} under way, {state.to_go} to go"
    return numbers if state.next_in_s is None else f"{numbers} ({pace_of(state)})"


def pace_of(state: HostEvacuationState) -> str:
    """Return what servers wait for that may not begin yet."""
    return f"{state.per_minute} a minute may begin, the next one in {state.next_in_s:.0f} s"


def summary(state: HostEvacuationState) -> RenderableType:
    """Show the servers that are left, and a sentence."""
    last = Text(f"{progress_of(state)}, {len(state.left)} left")
    left = Listing(LEFT, [(one.name, one.server, one.reason) for one in state.left])
    return Lines(left, Text(), last) if state.left else last
