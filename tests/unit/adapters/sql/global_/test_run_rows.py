"""Rows of runs as the databases return them."""

from collections import namedtuple

from whimbrel.adapters.sql.global_.run_rows import COLUMNS, read_run, run_values
from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import ProjectId, RunId, ServerId, UserId
from whimbrel.domain.run import LogEntry, Run
from whimbrel.moves.facts import MoveFacts
from whimbrel.moves.resize import RESIZE
from whimbrel.ports.placement.placement import Owner

Row = namedtuple("Row", COLUMNS)
"""A row without `_mapping`, which costs a dictionary of all columns for each use."""


def test_a_run_is_read_from_the_attributes_of_its_row() -> None:
    project, user = ProjectId("p"), UserId("u")
    flavor = Flavor(flavor_id="1", name="small", vcpus=1, memory_mib=512, root_gib=1)
    run = Run(
        id=RunId("r"),
        saga=RESIZE.name,
        version=RESIZE.version,
        subject=ServerId("s"),
        project_id=project,
        user_id=user,
        asker_project_id=project,
        action="req-1",
        at=RESIZE.steps[1].name,
        facts=MoveFacts(owner=Owner(project, user), name="web", image_id=None, new_flavor=flavor),
        log=(LogEntry(step=RESIZE.steps[0].name, way="do", began=1.0, took_s=0.5, outcome="done"),),
        debts=(RESIZE.steps[0].name,),
    )
    values = run_values(run)
    assert read_run(Row(**{name: values[name] for name in COLUMNS}), SAGAS) == run
