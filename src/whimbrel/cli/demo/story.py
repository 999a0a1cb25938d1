"""What happens in the demo, scene by scene. Read it from top to bottom."""

import time
from collections.abc import Callable

from whimbrel.api.views.moves import Move
from whimbrel.cli import accounting_check
from whimbrel.cli.client import Api, Login
from whimbrel.cli.demo.actors import Member, Operator, wait_for
from whimbrel.cli.demo.cloud_processes import Processes
from whimbrel.cli.demo.output import Stage
from whimbrel.cli.terminal import seconds
from whimbrel.settings.datadir import ADMIN_CLOUD, DEMO_CLOUD, DataDir

SMALL, LARGE = "demo.small", "demo.large"
IN_THE_MIDDLE = ("carry_disk", "start_on_target")
CRASH = "clara moves, and her conductor is killed in the middle"
ATTEMPTS = 3
WATCH_S = 0.03


def tell(stage: Stage, cloud: Processes) -> bool:
    """Tell the story in a running cloud; give whether the books agree at the end."""
    home = DataDir(cloud.data_dir)
    with Api(Login(home.clouds, DEMO_CLOUD)) as mine, Api(Login(home.clouds, ADMIN_CLOUD)) as admins:
        member, operator = Member(mine, stage), Operator(admins, stage)
        _introduce(stage, cloud, home)
        servers = _boot(stage, member, operator)
        _resize_and_confirm(stage, member, operator, servers)
        _resize_and_revert(stage, member, operator, servers)
        _migrate_through_a_crash(stage, operator, cloud, servers)
        return _show_accounting(stage, admins)


def _introduce(stage: Stage, cloud: Processes, home: DataDir) -> None:
    stage.scene("A cloud of three processes")
    url = home.running().url
    stage.say(f"process {cloud.api.pid}: API, services and hosts, at {url}", pid=cloud.api.pid, url=url)
    for name, conductor in cloud.conductors.items():
        stage.say(f"process {conductor.pid}: conductor {name}", pid=conductor.pid, conductor=name)


def _boot(stage: Stage, member: Member, operator: Operator) -> dict[str, str]:
    stage.scene("Three servers")
    operator.make_flavor(SMALL, vcpus=1, ram=64, disk=1)
    operator.make_flavor(LARGE, vcpus=2, ram=128, disk=2)
    began = time.monotonic()
    servers = member.boot(["anna", "berta", "clara"], SMALL, "tick")
    for name, server in servers.items():
        host = operator.server(server)["OS-EXT-SRV-ATTR:host"]
        stage.say(f"{name} runs on [bold]{host}[/]", server=server, name=name, host=host)
    stage.say(f"[dim]all three within {seconds(time.monotonic() - began)}[/]")
    return servers


def _resize_and_confirm(stage: Stage, member: Member, operator: Operator, servers: dict[str, str]) -> None:
    stage.scene("anna grows, and that is well")
    server = servers["anna"]
    member.resize("anna", server, LARGE)
    move = _follow(stage, operator, operator.latest_move(server), _waits)
    stage.say(
        f"anna runs on [bold]{move.target}[/] with 2 cpus; what she had on [bold]{move.source}[/] is kept until she is"
        " content",
        move=move.id,
    )
    member.confirm("anna", server)
    _finish(stage, operator, move)


def _resize_and_revert(stage: Stage, member: Member, operator: Operator, servers: dict[str, str]) -> None:
    stage.scene("berta grows too, and thinks better of it")
    server = servers["berta"]
    member.resize("berta", server, LARGE)
    move = operator.latest_move(server)
    move = wait_for(lambda: operator.move(move.id), _waits, f"move {move.id} to be there")
    stage.say(f"berta runs on [bold]{move.target}[/]; she came from [bold]{move.source}[/]", move=move.id)
    member.revert("berta", server)
    _finish(stage, operator, move)
    stage.say(f"berta is back on [bold]{operator.server(server)['OS-EXT-SRV-ATTR:host']}[/], as she was")


def _migrate_through_a_crash(stage: Stage, operator: Operator, cloud: Processes, servers: dict[str, str]) -> None:
    stage.scene(CRASH)
    server = servers["clara"]
    for _ in range(ATTEMPTS):
        operator.migrate("clara", server)
        move = _follow(stage, operator, operator.latest_move(server), lambda now: _is_halfway(now) or _waits(now))
        if not _waits(move):
            move = _kill_its_conductor(stage, operator, cloud, move)
            break
        stage.say("that was too quick to be killed; once more")
        operator.confirm("clara", server)
        _finish(stage, operator, move)
    move = _follow(stage, operator, move, _waits, len(move.steps))
    stage.say(f"clara runs on [bold]{move.target}[/]", server=server, host=move.target)
    operator.confirm("clara", server)
    _finish(stage, operator, move)


def _is_halfway(move: Move) -> bool:
    return move.at in IN_THE_MIDDLE and move.owner is not None


def _waits(move: Move) -> bool:
    return move.state == "parked"


def _kill_its_conductor(stage: Stage, operator: Operator, cloud: Processes, move: Move) -> Move:
    """Kill who drives a move and give the move as the other one has taken it over."""
    assert move.owner, "it was caught with an owner"
    victim = cloud.conductors[move.owner.partition("@")[0]]  # the name of c1@HOST-PID-... is c1
    stage.say(f"conductor {move.owner} is at [bold]{move.at}[/]: clara is down, half of her is here and half there")
    stage.command(f"kill -9 {victim.pid}")
    victim.kill()
    killed = time.monotonic()
    stage.say(f"[bold red]conductor {move.owner} is dead[/]", killed=move.owner, at=move.at, epoch=move.epoch)
    taken: Move = wait_for(
        lambda: operator.move(move.id),
        lambda now: now.epoch > move.epoch and now.owner != move.owner,
        f"move {move.id} to be taken over",
        WATCH_S,
    )
    stage.say(
        f"[bold green]conductor {taken.owner} takes over[/] after {seconds(time.monotonic() - killed)}, under epoch"
        f" {taken.epoch}: an order of {move.owner} that comes late is refused everywhere",
        taken_over_by=taken.owner,
        epoch=taken.epoch,
    )
    return taken


def _follow(stage: Stage, operator: Operator, move: Move, enough: Callable[[Move], bool], told: int = 0) -> Move:
    """Show the steps of a move as they happen, from the one numbered `told`, until it is enough."""

    def look() -> Move:
        nonlocal told
        now = operator.move(move.id)
        stage.steps(now.steps[told:])
        told = len(now.steps)
        return now

    seen: Move = wait_for(look, enough, f"move {move.id} to go on", WATCH_S)
    return seen


def _finish(stage: Stage, operator: Operator, move: Move) -> None:
    """Show what is done after the verdict, to the end of a move."""
    over = _follow(stage, operator, move, lambda now: now.is_over, len(move.steps))
    now = operator.until(move.server_id, "ACTIVE")
    stage.say(f"{now['status']}, the move is {over.status}", move=move.id, state=over.state)


def _show_accounting(stage: Stage, admins: Api) -> bool:
    stage.scene("The books: every record, guest and claim, each asked where it is")
    stage.command("whimbrel", "prove")
    found = accounting_check.read(admins)
    stage.show(
        accounting_check.table(found), {"laws": found.proof.laws, "servers": found.proof.servers, "agree": found.agree}
    )
    if found.agree:
        stage.say(
            "[bold green]The books agree.[/] Each server has one guest and one claim, both where its record says and of"
            " its size; there is no other guest, no other claim, and no move is left open."
        )
    else:
        stage.say("[bold red]The books do not agree:[/]", faults=found.faults())
        for fault in found.faults():
            stage.say(f"[red]{fault}[/]")
    return found.agree
