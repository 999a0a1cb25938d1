"""Who passes a filter: asked of the filter alone, by its Nova name."""

from typing import Any

from whimbrel.domain.flavor import Flavor
from whimbrel.domain.scheduler_settings import SchedulerRules
from whimbrel.ports.placement.assignments import ResourceRequest
from whimbrel.scheduling.filters.by_name import FILTERS
from whimbrel.scheduling.request import Request
from whimbrel.scheduling.snapshot import Snapshot

RESOURCES = ResourceRequest(own={"VCPU": 1})


def asking(**asked: Any) -> Request:
    return Request(resources=RESOURCES, **asked)


def flavored(name: str = "small", **extra_specs: str) -> Flavor:
    """Make a flavor; `__` in an extra spec's key stands for a colon."""
    specs = {key.replace("__", ":"): value for key, value in extra_specs.items()}
    return Flavor(flavor_id=name, name=name, vcpus=1, memory_mib=1, root_gib=1, extra_specs=specs)


def passing(name: str, request: Request, now: Snapshot) -> set[str]:
    """Return the hosts that pass."""
    places = set(range(len(now)))
    for constraint in FILTERS[name](request, now):
        assert constraint.name == name
        places -= {place for place in places if not constraint.passes[place]}
    return {now.fleet.names[place] for place in places}


def rules(**settings: Any) -> SchedulerRules:
    return SchedulerRules(**settings)
