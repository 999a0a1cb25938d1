"""The page of exit codes, and of what commands write with --json."""

from typing import Any

import msgspec

from tools.api_extension_page import shapes
from whimbrel.api.views.cells import CellAnswer, Cells
from whimbrel.api.views.histories import HistoryAnswer
from whimbrel.api.views.host_evacuations import HostEvacuationAnswer
from whimbrel.api.views.host_power import HostPowerAnswer
from whimbrel.api.views.hosts import ForgottenHostAnswer, HostInvitationAnswer, HostStateAnswer, HostStates
from whimbrel.api.views.maintenances import MaintenanceAnswer, MaintenanceRows
from whimbrel.api.views.moves import Decisions, MoveAnswer, Moves
from whimbrel.api.views.plans import PlanAnswer
from whimbrel.api.views.processes import Processes
from whimbrel.api.views.proof import Proof, ProofAnswer
from whimbrel.api.views.repairs import RepairFinding
from whimbrel.api.views.restores import EndingAnswer, SurveyAnswer
from whimbrel.api.views.server_groups import ServerGroupAnswer
from whimbrel.api.views.status import StatusAnswer
from whimbrel.api.views.zones import Zones
from whimbrel.bootstrap.upgrade_check import Report
from whimbrel.cli import drain, repair
from whimbrel.cli.maintenance_simulation import SimulatedPlan, SimulationAnswer

REPAIRS = [
    ("repairs", list[RepairFinding]),
    ("unseen", list[str]),
    ("outcomes", list[repair.Outcome]),
    ("proof", Proof | None),
]
CHANGES = ("plan", "start", "show", "pause", "resume", "abort")
SHAPES: dict[str, Any] = {
    "status": StatusAnswer,
    "processes": Processes,
    "move list": Moves,
    "move show": MoveAnswer,
    "move show --why": Decisions,
    "server move": MoveAnswer,
    "server move --group": ServerGroupAnswer,
    "server history": HistoryAnswer,
    "zone list": Zones,
    "cell list": Cells,
    "cell add": CellAnswer,
    "cell disable": CellAnswer,
    "cell enable": CellAnswer,
    "cell drain": msgspec.defstruct("DrainAnswer", [("drain", drain.Outcome)]),
    "host list": HostStates,
    "host show": HostStateAnswer,
    "host invite": HostInvitationAnswer,
    "host enable": HostStateAnswer,
    "host disable": HostStateAnswer,
    "host force-down": HostStateAnswer,
    "host evacuate": HostEvacuationAnswer,
    "host fence": HostPowerAnswer,
    "host forget": ForgottenHostAnswer,
    "plan resize": PlanAnswer,
    "plan migrate": PlanAnswer,
    "plan group": PlanAnswer,
    "maintenance list": MaintenanceRows,
    **dict.fromkeys((f"maintenance {word}" for word in CHANGES), MaintenanceAnswer),
    "maintenance simulate": SimulationAnswer,
    "maintenance plan --simulate": SimulatedPlan,
    "prove": ProofAnswer,
    "repair": msgspec.defstruct("RepairOutcome", REPAIRS),
    "restore show": SurveyAnswer,
    "restore begin": SurveyAnswer,
    "restore end": EndingAnswer,
    "upgrade check": msgspec.defstruct("UpgradeAnswer", [("upgrade", Report)]),
}
"""Command -> the class of its JSON document."""

ELSEWHERE = frozenset(
    {
        "check",
        "doctor",
        "db show",
        "bus show",
        "placement import",
        "placement export",
        "demo",
        "backup",
        "backup verify",
    }
    | {"sim run", "sim replay", "pki init", "pki issue", "pki renew", "pki list", "heal ports"}
)
"""Commands whose document is not described here."""

EXIT_CODES = {
    0: "success; of a command that looks for something wrong: nothing is",
    1: "the request was refused or failed, the cloud does not answer, or something is wrong that the command looks for",
    2: "the command or the settings file is wrong; nothing was done",
    3: "`whimbrel plan`: no host was found",
    130: "interrupted by Ctrl-C",
}
HEAD = """\
# Exit codes and JSON

## Exit codes

An error is one sentence on standard error. [Each command](commands.md) says what it looks for.

| code | |
|---|---|
"""
JSON = """
## JSON

`--json` writes one document on one line of standard output; `--watch --json` one for each change or look. Fields
are only added. A path such as `moves[].id` is a field of each element of a list, `hosts{}.up` of each value of an
object; `= ...` is what is meant where an older cloud sends no such field. Times are seconds since 1970.

| command | document |
|---|---|
"""
OTHERS = "\nOther commands with `--json` have documents of their own, which are not described here: {names}.\n"


def json_shapes() -> str:
    codes = "".join(f"| {code} | {said} |\n" for code, said in EXIT_CODES.items())
    rows = "".join(f"| `whimbrel {command}` | {_link(kind)} |\n" for command, kind in SHAPES.items())
    others = OTHERS.format(names=", ".join(f"`{name}`" for name in sorted(ELSEWHERE)))
    named = {kind.__name__: kind for kind in SHAPES.values()}
    return f"{HEAD}{codes}{JSON}{rows}{others}{''.join(shapes(named.items()))}"


def _link(kind: Any) -> str:
    return f"[{kind.__name__}](#{kind.__name__.lower()})"
