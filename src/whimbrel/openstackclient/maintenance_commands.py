"""The commands `openstack maintenance ...`."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from osc_lib.command import command
from osc_lib.exceptions import CommandError

from whimbrel.api.views.maintenances import MaintenanceState
from whimbrel.openstackclient.extension import API_NAME
from whimbrel.openstackclient.maintenances_client import MaintenancesClient
from whimbrel.openstackclient.terminal_fit import Kinds, fitted
from whimbrel.openstackclient.utc_times import moment

COLUMNS = ("ID", "Name", "State", "Planned At", "Progress")
KINDS = Kinds(ids=("ID",), left_out=("Planned At",), names=("Name", "Progress"))
SERVER_COLUMNS = ("Server", "ID", "Source", "How", "Target", "State", "Move ID", "Why")
SERVER_KINDS = Kinds(ids=("ID", "Move ID"), left_out=("Why", "ID"), names=("Server", "Source", "Target", "How"))
HOST_COLUMNS = ("Host", "VCPUs %", "Memory %", "Disk %", "Servers", "Why")
HOST_KINDS = Kinds(ids=(), left_out=("Why",), names=("Host",))
BUDGETS = {
    "at_once": "How many servers move at once (default: 8)",
    "host_at_once": "How many of these from or to one host (default: 4)",
    "group_at_once": "How many of these are of one server group (default: 1)",
    "zone_at_once": "How many of these from, to or within one availability zone (default: no limit)",
    "aggregate_at_once": "How many of these from, to or within one aggregate without a zone (default: no limit)",
    "project_at_once": "How many of these are of one project (default: no limit)",
    "most_failed": "How many moves may fail; one more pauses the maintenance (default: 3)",
}

Shown = tuple[tuple[str, ...], tuple[Any, ...]]


class ListMaintenance(command.Lister):
    """List maintenances, the newest first"""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        rows = [
            (row.id, row.name, row.state, moment(row.created_at), row.progress.words)
            for row in _client(self).maintenances()
        ]
        return fitted(COLUMNS, rows, KINDS, parsed_args, self.app.stdout)


class ShowMaintenance(command.ShowOne):
    """Show a maintenance: its state and its progress"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return _with_maintenance(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        return _shown(_client(self).maintenance(parsed_args.maintenance))


class ListMaintenanceServer(command.Lister):
    """List the servers of a maintenance: how and where each moves, or why it stays"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return _with_maintenance(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        found = _client(self).maintenance(parsed_args.maintenance)
        rows = [
            (one.name, one.server_id, one.source, one.how, one.target, one.state, one.move_id, one.why)
            for one in found.servers
        ]
        return fitted(SERVER_COLUMNS, rows, SERVER_KINDS, parsed_args, self.app.stdout)


class ListMaintenanceHost(command.Lister):
    """List the hosts that a maintenance balances or packs: their use before and after it, in per cent"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return _with_maintenance(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        found = _client(self).maintenance(parsed_args.maintenance)
        rows = [(each.host, *each.words, each.reason) for each in found.use]
        return fitted(HOST_COLUMNS, rows, HOST_KINDS, parsed_args, self.app.stdout)


class PlanMaintenance(command.ShowOne):
    """Plan how servers of hosts move, and save the plan; nothing is moved, and no host is disabled"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("hosts", metavar="<host>", nargs="*", help="Name of a host (repeat)")
        parser.add_argument("--zone", metavar="<zone>", help="All hosts of this availability zone")
        parser.add_argument("--aggregate", metavar="<aggregate>", help="All hosts of this aggregate (name or ID)")
        parser.add_argument("--cell", metavar="<cell>", help="All hosts of this cell")
        parser.add_argument("--name", metavar="<name>", help="Name of the maintenance (default: what it is of)")
        parser.add_argument(
            "--goal",
            choices=("empty", "balance", "pack"),
            help="Empty the hosts; balance their use; or pack their servers, so that as many hosts as possible become"
            " empty (default: empty)",
        )
        parser.add_argument(
            "--spread",
            metavar="<per cent>",
            type=int,
            help="Of a balance: by how much the used shares of two hosts may differ (default: 10)",
        )
        parser.add_argument(
            "--allow-downtime",
            action="store_true",
            help="Stop, move and start running servers that cannot move live",
        )
        parser.add_argument(
            "--on-drift",
            choices=("replan", "pause"),
            default="replan",
            help="If a server cannot move as planned: plan it anew, or pause (default: replan)",
        )
        for name, words in BUDGETS.items():
            parser.add_argument(f"--{name.replace('_', '-')}", metavar="<number>", type=int, help=words)
        parser.add_argument(
            "--window",
            dest="windows",
            metavar="<window>",
            action="append",
            help='When moves may start, such as "mon-fri 22:00-04:00" (repeat; default: always)',
        )
        parser.add_argument("--time-zone", metavar="<zone>", help="Time zone of the windows (default: UTC)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        given = vars(parsed_args)
        asked = {
            name: given[name]
            for name in ("aggregate", "cell", "name", "goal", "spread", "windows", "time_zone", *BUDGETS)
        }
        asked |= {"hosts": parsed_args.hosts or None, "availability_zone": parsed_args.zone}
        body = {name: value for name, value in asked.items() if value is not None}
        body |= {"allow_downtime": parsed_args.allow_downtime, "on_drift": parsed_args.on_drift}
        found = _client(self).plan(body)
        if found.is_reached is False:
            self.app.stderr.write(f"The plan does not balance the hosts: openstack maintenance host list {found.id}\n")
        if found.progress.stays:
            self.app.stderr.write(
                f"{found.progress.stays} of the servers stay; which, and why: openstack maintenance server list"
                f" {found.id}\n"
            )
        return _shown(found)


class _Act(command.Command):
    action: str

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return _with_maintenance(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        _client(self).act(parsed_args.maintenance, self.action)


class PauseMaintenance(_Act):
    """Start no more moves of a maintenance; those under way go on, and the hosts stay disabled"""

    action = "pause"


class AbortMaintenance(_Act):
    """End a maintenance: start no more moves, and return the hosts to their state before the start"""

    action = "abort"


class _Run(_Act):
    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--wait", action="store_true", help="Wait until it is over or paused; fail if servers are left"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        client = _client(self)
        found = client.act(parsed_args.maintenance, self.action, self.body(parsed_args))
        if parsed_args.wait and not (found := client.wait(found)).has_succeeded:
            said = f"; {found.message}" if found.message else ""
            raise CommandError(f"maintenance {found.name} is {found.state}: {found.progress.words}{said}")

    def body(self, parsed_args: argparse.Namespace) -> Any:
        return None


class StartMaintenance(_Run):
    """Execute a plan as it was saved; hosts that it empties take no new servers from now on, also when it is done"""

    action = "start"


class ResumeMaintenance(_Run):
    """Go on with a paused maintenance"""

    action = "resume"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--retry-failed", action="store_true", help="Plan servers anew whose moves failed, and those that stay"
        )
        return parser

    def body(self, parsed_args: argparse.Namespace) -> Any:
        return {"retry_failed": parsed_args.retry_failed}


def _client(of: command.Command) -> MaintenancesClient:
    return MaintenancesClient(getattr(of.app.client_manager, API_NAME))


def _with_maintenance(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument(
        "maintenance", metavar="<maintenance>", help="Maintenance (name or ID, or the beginning of the ID)"
    )
    return parser


def _shown(found: MaintenanceState) -> Shown:
    shown = {
        "id": found.id,
        "name": found.name,
        "target": found.target,
        "state": found.state,
        "message": found.message,
        "progress": found.progress.words,
        "obstacles": "\n".join(found.obstacles) or None,
        "hosts": ", ".join(found.hosts),
        "goal": found.goal,
        "spread": found.spread,
        "allow_downtime": found.allow_downtime,
        "on_drift": found.on_drift,
        **{name: getattr(found.budgets, name) for name in BUDGETS},
        "windows": ", ".join(found.windows) or None,
        "time_zone": found.time_zone,
        "opens_at": moment(found.opens_at),
        "closes_at": moment(found.closes_at),
        "created_at": moment(found.created_at),
        "started_at": moment(found.started_at),
        "finished_at": moment(found.finished_at),
    }
    return tuple(shown), tuple(shown.values())
