"""whimbrel storage: connects this machine to volumes by os-brick, for its agent."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def storage(*, mounts: Annotated[Path, Parameter(help="The directory of mounted shares.")]) -> None:
    """Answer one request of the agent on standard input. Started by the agent, or by systemd; it needs root."""
    from whimbrel.adapters.brick import brick_program

    brick_program.serve(mounts)
