"""The commands `openstack move ...`."""

import argparse
import time
from collections.abc import Iterable, Sequence
from typing import Any

from osc_lib.command import command
from osc_lib.exceptions import CommandError

from whimbrel.api.views.moves import Move, MoveRow
from whimbrel.openstackclient.extension import API_NAME
from whimbrel.openstackclient.moves_client import MovesClient, query_of
from whimbrel.openstackclient.terminal_fit import Kinds, fitted
from whimbrel.openstackclient.utc_times import moment

COLUMNS = ("ID", "Type", "Server", "Source", "Target", "State", "Step", "Standing For", "Why")
KINDS = Kinds(ids=("ID",), left_out=("Why", "Step", "Standing For"), names=("Server", "Source", "Target"))
STATES = {"open": "open", "parked": "parked", "done": "done", "undone": "rolled back"}
"""State of the API -> as it is shown: a move that was rolled back is no error."""
STEP_COLUMNS = ("Step", "Direction", "Took (s)", "Outcome", "Sentence", "Detail")


class ListMove(command.Lister):
    """List moves of servers, the newest first"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--open", action="store_true", help="Only moves that have not ended")
        parser.add_argument(
            "--state", action="append", choices=sorted(STATES), help="Only moves in this state (repeat)"
        )
        parser.add_argument("--server", metavar="<server>", help="Only moves of this server (name or ID)")
        parser.add_argument("--host", metavar="<host>", help="Only moves from or to this host")
        parser.add_argument("--changes-since", metavar="<time>", help="Only moves that changed since (ISO 8601)")
        parser.add_argument("--all-kinds", action="store_true", help="Also creates, deletes and other operations")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        query = query_of(parsed_args)
        if parsed_args.server:
            query.append(("server", _server_id(self.app.client_manager, parsed_args.server)))
        now = time.time()
        rows = [_row(move, now) for move in _client(self).moves(query)]
        return fitted(COLUMNS, rows, KINDS, parsed_args, self.app.stdout)


class ShowMove(command.ShowOne):
    """Show a move: where it stands, since when, and why"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return _with_move(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        move = _move(self, parsed_args.move)
        shown = {
            "id": move.id,
            "type": move.saga,
            "server_id": move.server_id,
            "server_name": move.server_name,
            "source": move.source_path,
            "target": move.target_path,
            "old_flavor": move.old_flavor,
            "new_flavor": move.new_flavor,
            "state": STATES[move.state],
            "status": move.status,
            "direction": move.way,
            "step": None if move.is_over else move.at,
            "at_step_since": moment(move.at_step_since),
            "why": move.why or None,
            "still_to_undo": ", ".join(move.debts) or None,
            "choice": move.summary,
            "created_at": moment(move.created_at),
            "finished_at": moment(move.finished_at),
        }
        return tuple(shown), tuple(shown.values())


class ListMoveStep(command.Lister):
    """List the steps that a move has taken, and those ahead"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return _with_move(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
        move = _move(self, parsed_args.move)
        taken = [
            (step.step, step.way, round(step.took_s, 3), step.outcome, step.sentence, step.detail)
            for step in move.steps
        ]
        way = "do" if move.way == "forward" else "undo"
        ahead = [
            (step, way, None, "ahead", sentence, None)
            for step, sentence in zip(move.ahead, move.ahead_sentences, strict=False)
        ]
        return STEP_COLUMNS, [*taken, *ahead]


class _Judge(command.Command):
    verdict: str

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return _with_move(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        move = _move(self, parsed_args.move)
        if move.state != "parked":
            raise CommandError(f"move {move.id} does not wait to be confirmed or reverted: it is {STATES[move.state]}")
        _client(self).judge(move.server_id, self.verdict)


class ConfirmMove(_Judge):
    """Confirm a move: the server stays on its new host"""

    verdict = "confirmResize"


class RevertMove(_Judge):
    """Revert a move: the server goes back to its old host"""

    verdict = "revertResize"


class _Act(command.Command):
    action: str

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return _with_move(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        _client(self).act(_move(self, parsed_args.move).id, self.action)


class RetryMove(_Act):
    """Retry a move now that waits for its next attempt, or was stopped by a bug"""

    action = "retry"


class TurnBackMove(_Act):
    """Roll a move back that is under way; a live migration is aborted"""

    action = "turn_back"


class CompleteMove(_Act):
    """Force a live migration to complete"""

    action = "complete"


def _client(of: command.Command) -> MovesClient:
    return MovesClient(getattr(of.app.client_manager, API_NAME))


def _move(of: command.Command, wanted: str) -> Move:
    """Return a move by a prefix of its id, or the newest move of the server with this name or id."""
    return _client(of).move(wanted, _found_server(of.app.client_manager, wanted))


def _server_id(clients: Any, wanted: str) -> str:
    """Return the id of a server; of a deleted one only the id itself is known."""
    return _found_server(clients, wanted) or wanted


def _found_server(clients: Any, wanted: str) -> str | None:
    found = clients.sdk_connection.compute.find_server(wanted, ignore_missing=True, all_projects=True)
    return found.id if found else None


def _with_move(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument(
        "move", metavar="<move>", help="Move (ID, or the beginning of it), or a server (name or ID): its newest move"
    )
    return parser


def _row(move: MoveRow, now: float) -> tuple[Any, ...]:
    since = move.at_step_since
    return (
        move.id,
        move.saga,
        move.server_name or move.server_id,
        move.source_path,
        move.target_path,
        STATES[move.state],
        None if move.is_over else move.at,
        None if since is None else f"{max(now - since, 0):.0f} s",
        move.why or None,
    )
