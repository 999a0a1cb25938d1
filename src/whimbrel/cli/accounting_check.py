"""The accounting of an idle cloud: the invariants hold, and no move is open."""

import msgspec
from rich.console import RenderableType

from whimbrel.api.views.moves import Moves
from whimbrel.api.views.proof import Proof
from whimbrel.cli import prove
from whimbrel.cli.client import Api


class AccountingCheck(msgspec.Struct, kw_only=True):
    proof: Proof
    open_moves: list[str]

    @property
    def agree(self) -> bool:
        return self.proof.holds and not self.open_moves

    def faults(self) -> list[str]:
        """Return everything that is wrong, one sentence each."""
        return self.proof.faults() + [f"move {each} is not over" for each in self.open_moves]


def read(api: Api) -> AccountingCheck:
    """Run a proof. api: logged in as an administrator."""
    open_moves = msgspec.convert(api.get("compute", "/whimbrel/moves?open=true&kind=any"), Moves).moves
    return AccountingCheck(proof=prove.read(api), open_moves=[move.id for move in open_moves])


def table(check: AccountingCheck) -> RenderableType:
    """Show each invariant and how much was checked."""
    return prove.invariants(check.proof.invariants)
