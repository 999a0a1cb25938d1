"""NUMA nodes that flavors and images request, and NUMATopologyFilter, which fits them to those of hosts.

Invariant: sizes are compared, not free amounts: the hypervisor assigns guests to nodes, and Placement counts what is
free in total.
Source: Nova's `hw:numa_nodes`, `hw:numa_cpus.N`, `hw:numa_mem.N` and the image's properties of these names;
dedicated CPUs and large pages imply one node by default.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import accumulate

from whimbrel.domain.errors import Invalid
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.numa import NumaNode, fit
from whimbrel.scheduling.constraint import Constraint
from whimbrel.scheduling.request import Request
from whimbrel.scheduling.requirements.cpus import cpu_set
from whimbrel.scheduling.requirements.hardware_options import Options, contradiction
from whimbrel.scheduling.snapshot import Snapshot

NAME = "NUMATopologyFilter"
_NODE = re.compile(r"hw[:_]numa_(cpus|mem)\.(\d+)")
_SMALL_PAGES = (None, "small", "any")


def topology(request: Request, snapshot: Snapshot) -> Iterator[Constraint]:
    flavor = request.flavor
    if flavor is None or not (wanted := nodes_of(flavor, request.image_properties)):
        return
    reports = snapshot.fleet.where("numa", bool)
    yield Constraint(NAME, reports, "it does not report its NUMA nodes")
    words = f"its NUMA nodes do not hold the {len(wanted)} that the server wants: {_listed(wanted)}"
    yield Constraint(NAME, ~reports | snapshot.fleet.where("numa", lambda there: fit(wanted, there)), words)


def nodes_of(flavor: Flavor, properties: Mapping[str, str]) -> tuple[NumaNode, ...]:
    """Return the requested nodes of a guest; none: any topology. Raises: Invalid: the specification is wrong."""
    options = Options(flavor.extra_specs, properties)
    count = options.agreed("numa_nodes")
    node_options = _node_options(flavor.extra_specs, properties)
    if count is None:
        if node_options:
            raise Invalid(
                f"'{next(iter(node_options.values()))[0]}' needs 'hw:numa_nodes': how many NUMA nodes there are."
            )
        return (NumaNode(cpus=flavor.vcpus, memory_mib=flavor.memory_mib),) if _wants_one(options) else ()
    if not re.fullmatch(r"[1-9][0-9]{0,2}", count):
        raise Invalid(f"'numa_nodes' cannot be '{count}': it is a whole number from 1 to 999.")
    nodes = _uneven(flavor, int(count), node_options) if node_options else _even(flavor, int(count))
    return tuple(nodes)


def cells_of(flavor: Flavor, properties: Mapping[str, str]) -> list[tuple[frozenset[int], int]]:
    """Return the cpus and MiB of each requested node; none: no topology was requested. Raises: as nodes_of."""
    nodes, node_options = nodes_of(flavor, properties), _node_options(flavor.extra_specs, properties)
    ends = list(accumulate((node.cpus for node in nodes), initial=0))
    sets = [
        cpu_set(*node_options["cpus", number], flavor.vcpus)
        if node_options
        else frozenset(range(*ends[number : number + 2]))
        for number in range(len(nodes))
    ]
    return [(cpus, node.memory_mib) for cpus, node in zip(sets, nodes, strict=True)]


def _wants_one(options: Options) -> bool:
    """Check whether another option implies one node."""
    policy = options.of_flavor("cpu_policy") or options.of_image("cpu_policy")
    pages = options.of_flavor("mem_page_size") or options.of_image("mem_page_size")
    return policy in ("dedicated", "mixed") or pages not in _SMALL_PAGES


def _node_options(specs: Mapping[str, str], properties: Mapping[str, str]) -> dict[tuple[str, int], tuple[str, str]]:
    """Read the options of single nodes: (cpus or mem, number) -> key, value."""
    node_options: dict[tuple[str, int], tuple[str, str]] = {}
    for key, value in [*specs.items(), *properties.items()]:
        if found := _NODE.fullmatch(key):
            what = found[1], int(found[2])
            if what in node_options and node_options[what][1] != value:
                raise contradiction(f"numa_{what[0]}.{what[1]}", node_options[what][1], value)
            node_options.setdefault(what, (key, value))
    return node_options


def _even(flavor: Flavor, count: int) -> list[NumaNode]:
    if flavor.vcpus % count or flavor.memory_mib % count:
        raise Invalid(
            f"{flavor.vcpus} CPUs and {flavor.memory_mib} MiB cannot be shared out evenly among {count} NUMA nodes: say"
            " what each has by 'hw:numa_cpus.0', 'hw:numa_mem.0' and so on."
        )
    return [NumaNode(cpus=flavor.vcpus // count, memory_mib=flavor.memory_mib // count)] * count


def _uneven(flavor: Flavor, count: int, node_options: Mapping[tuple[str, int], tuple[str, str]]) -> list[NumaNode]:
    needed = {(what, number) for what in ("cpus", "mem") for number in range(count)}
    if missing := sorted(needed ^ node_options.keys()):
        what, number = missing[0]
        wrong = "missing" if missing[0] in needed else "one too many"
        raise Invalid(f"With {count} NUMA nodes 'hw:numa_{what}.{number}' is {wrong}.")
    sets = [cpu_set(*node_options["cpus", number], flavor.vcpus) for number in range(count)]
    if sorted(cpu for some in sets for cpu in some) != list(range(flavor.vcpus)):
        raise Invalid(f"'hw:numa_cpus' must give each of the flavor's {flavor.vcpus} CPUs to one NUMA node.")
    memory = [_mib(*node_options["mem", number]) for number in range(count)]
    if sum(memory) != flavor.memory_mib:
        raise Invalid(f"'hw:numa_mem' must come to the flavor's {flavor.memory_mib} MiB, and not to {sum(memory)}.")
    return [NumaNode(cpus=len(cpus), memory_mib=mib) for cpus, mib in zip(sets, memory, strict=True)]


def _mib(key: str, value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,10}", value):
        raise Invalid(f"'{key}' cannot be '{value}': it is a whole number of MiB.")
    return int(value)


def _listed(nodes: tuple[NumaNode, ...]) -> str:
    return ", ".join(f"{node.cpus} CPUs with {node.memory_mib} MiB" for node in nodes)
