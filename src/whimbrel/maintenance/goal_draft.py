"""The moves of a goal while they are planned: each is reserved, and may be withdrawn."""

from dataclasses import dataclass, field

from msgspec.structs import replace

from whimbrel.domain.ids import HostName
from whimbrel.domain.maintenance_plan import MaintenanceItem
from whimbrel.maintenance.host_shares import HostShares
from whimbrel.maintenance.target_planning import Examined, Planner, Way
from whimbrel.moves.steps.target import Choice


@dataclass
class GoalDraft:
    """shares: after these moves. reasons: of hosts that stay as they are."""

    planner: Planner
    shares: HostShares
    moves: list[tuple[MaintenanceItem, Choice]] = field(default_factory=list)
    reasons: dict[HostName, str] = field(default_factory=dict)

    @property
    def items(self) -> list[MaintenanceItem]:
        return [replace(item, position=position) for position, (item, _) in enumerate(self.moves)]

    async def add(self, found: Examined, way: Way, choice: Choice, purpose: str) -> None:
        item = await self.planner.moving(len(self.moves), found.server, way, choice)
        self.moves.append((replace(item, purpose=purpose), choice))
        self.shares = self.shares.after(item.server_id, item.source, choice.host)

    def state_purpose(self, number: int, purpose: str) -> None:
        item, choice = self.moves[number]
        self.moves[number] = replace(item, purpose=purpose), choice

    def withdraw(self, number: int) -> None:
        """Withdraw the move with this number."""
        item, choice = self.moves.pop(number)
        self.planner.release(choice, item.group_id)
        self.shares = self.shares.after(item.server_id, choice.host, item.source)

    def withdraw_from(self, number: int) -> None:
        """Withdraw the moves from this number on."""
        while len(self.moves) > number:
            self.withdraw(-1)
