"""The scenes of the demo. Read it from top to bottom."""

import time
from collections.abc import Callable

from whimbrel.api.views.moves import Move
from whimbrel.cli import accounting_check
from whimbrel.cli.client import Api, Login
from whimbrel.cli.demo.actors import Member, Operator, wait_for
from whimbrel.cli.demo.cloud_processes import Processes
from whimbrel.cli.demo.output import Output
from whimbrel.cli.terminal import seconds
from whimbrel.settings.datadir import ADMIN_CLOUD, DEMO_CLOUD, DataDir

SMALL, LARGE = "demo.small", "demo.large"
IN_THE_MIDDLE = ("carry_disk", "start_on_target")
CRASH = "clara is migrated, and its conductor is killed in the middle"
ATTEMPTS = 3
WATCH_S = 0.03


def tell(output: Output, cloud: Processes) -> bool:
    """Run the story in a running cloud; return whether the accounting is correct at the end."""
    home = DataDir(cloud.data_dir)
    with Api(Login(home.clouds, DEMO_CLOUD)) as mine, Api(Login(home.clouds, ADMIN_CLOUD)) as admins:
        member, operator = Member(mine, output), Operator(admins, output)
        _introduce(output, cloud, home)
        servers = _boot(output, member, operator)
        _resize_and_confirm(output, member, operator, servers)
        _resize_and_revert(output, member, operator, servers)
        _migrate_through_a_crash(output, operator, cloud, servers)
        return _show_accounting(output, admins)


def _introduce(output: Output, cloud: Processes, home: DataDir) -> None:
    output.scene("A cloud of three processes")
    url = home.running().url
    output.say(f"process {cloud.api.pid}: API, services and hosts, at {url}", pid=cloud.api.pid, url=url)
    for name, conductor in cloud.conductors.items():
        output.say(f"process {conductor.pid}: conductor {name}", pid=conductor.pid, conductor=name)


def _boot(output: Output, member: Member, operator: Operator) -> dict[str, str]:
    output.scene("Three servers")
    operator.make_flavor(SMALL, vcpus=1, ram=64, disk=1)
    operator.make_flavor(LARGE, vcpus=2, ram=128, disk=2)
    began = time.monotonic()
    servers = member.boot(["anna", "berta", "clara"], SMALL, "tick")
    for name, server in servers.items():
        host = operator.server(server)["OS-EXT-SRV-ATTR:host"]
        output.say(f"{name} runs on [bold]{host}[/]", server=server, name=name, host=host)
    output.say(f"[dim]all three within {seconds(time.monotonic() - began)}[/]")
    return servers


def _resize_and_confirm(output: Output, member: Member, operator: Operator, servers: dict[str, str]) -> None:
    output.scene("anna is resized, and the resize is confirmed")
    server = servers["anna"]
    member.resize("anna", server, LARGE)
    move = _follow(output, operator, operator.latest_move(server), _waits)
    output.say(
        f"anna runs on [bold]{move.target}[/] with 2 cpus; [bold]{move.source}[/] keeps its disks until the confirm",
        move=move.id,
    )
    member.confirm("anna", server)
    _finish(output, operator, move)


def _resize_and_revert(output: Output, member: Member, operator: Operator, servers: dict[str, str]) -> None:
    output.scene("berta is resized, and the resize is reverted")
    server = servers["berta"]
    member.resize("berta", server, LARGE)
    move = operator.latest_move(server)
    move = wait_for(lambda: operator.move(move.id), _waits, f"move {move.id} to be there")
    output.say(f"berta runs on [bold]{move.target}[/]; it came from [bold]{move.source}[/]", move=move.id)
    member.revert("berta", server)
    _finish(output, operator, move)
    output.say(f"berta is back on [bold]{operator.server(server)['OS-EXT-SRV-ATTR:host']}[/], as it was")


def _migrate_through_a_crash(output: Output, operator: Operator, cloud: Processes, servers: dict[str, str]) -> None:
    output.scene(CRASH)
    server = servers["clara"]
    for _ in range(ATTEMPTS):
        operator.migrate("clara", server)
        move = _follow(output, operator, operator.latest_move(server), lambda now: _is_halfway(now) or _waits(now))
        if not _waits(move):
            move = _follow_through_a_kill(output, operator, cloud, move)
            break
        output.say("the move was over before the kill; once more")
        operator.confirm("clara", server)
        _finish(output, operator, move)
    output.say(f"clara runs on [bold]{move.target}[/]", server=server, host=move.target)
    operator.confirm("clara", server)
    _finish(output, operator, move)


def _follow_through_a_kill(output: Output, operator: Operator, cloud: Processes, move: Move) -> Move:
    """Kill the conductor of a move; show all steps from then on, also those that were taken before the next look."""
    taken = _kill_its_conductor(output, operator, cloud, move)
    return _follow(output, operator, taken, _waits, len(move.steps))


def _is_halfway(move: Move) -> bool:
    return move.at in IN_THE_MIDDLE and move.owner is not None


def _waits(move: Move) -> bool:
    return move.state == "parked"


def _kill_its_conductor(output: Output, operator: Operator, cloud: Processes, move: Move) -> Move:
    """Kill the conductor of a move; return the move after the takeover by the other one."""
    assert move.owner, "a conductor drives it"
    victim = cloud.conductors[_name_of(move.owner)]
    output.say(f"conductor {victim.name} is at [bold]{move.at}[/], and clara is stopped")
    output.command(f"kill -9 {victim.pid}")
    victim.kill()
    killed = time.monotonic()
    output.say(f"[bold red]conductor {victim.name} is dead[/]", killed=move.owner, at=move.at, epoch=move.epoch)
    taken: Move = wait_for(
        lambda: operator.move(move.id),
        lambda now: now.epoch > move.epoch and now.owner not in (move.owner, None),
        f"move {move.id} to be taken over",
        WATCH_S,
    )
    assert taken.owner, "another conductor has taken it over"
    output.say(
        f"[bold green]conductor {_name_of(taken.owner)} takes over[/] after {seconds(time.monotonic() - killed)}\n"
        f"  its epoch is {taken.epoch}: late orders of the dead conductor are refused",
        taken_over_by=taken.owner,
        epoch=taken.epoch,
    )
    return taken


def _name_of(owner: str) -> str:
    """Return the name of a conductor, which is c1 for the process c1@HOST-PID-..."""
    return owner.partition("@")[0]


def _follow(output: Output, operator: Operator, move: Move, enough: Callable[[Move], bool], told: int = 0) -> Move:
    """Show the steps of a move as they happen, from number `told`, until `enough` is true."""

    def look() -> Move:
        nonlocal told
        now = operator.move(move.id)
        output.steps(now.steps[told:])
        told = len(now.steps)
        return now

    seen: Move = wait_for(look, enough, f"move {move.id} to go on", WATCH_S)
    return seen


def _finish(output: Output, operator: Operator, move: Move) -> None:
    """Show the steps after the verdict, to the end of a move."""
    over = _follow(output, operator, move, lambda now: now.is_over, len(move.steps))
    now = operator.until(move.server_id, "ACTIVE")
    output.say(f"{now['status']}, the move is {over.status}", move=move.id, state=over.state)


def _show_accounting(output: Output, admins: Api) -> bool:
    output.scene("The accounting: are all records, guests and claims consistent?")
    output.command("whimbrel", "prove")
    found = accounting_check.read(admins)
    output.show(
        accounting_check.table(found),
        {"laws": found.proof.invariants, "servers": found.proof.servers, "agree": found.agree},
    )
    if found.agree:
        output.say(
            "[bold green]Everything is consistent.[/] Each server has one guest and one claim, on the\n"
            "  host of its record. There is no other guest or claim, and no move is open."
        )
    else:
        output.say("[bold red]It is inconsistent:[/]", faults=found.faults())
        for fault in found.faults():
            output.say(f"[red]{fault}[/]")
    return found.agree
