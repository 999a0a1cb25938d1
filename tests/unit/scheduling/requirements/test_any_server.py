"""Whatever flavors and images say, it becomes a request that placement can be asked, or is refused in a sentence."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.depth import examples
from tests.unit.placement.test_index import Drawn
from whimbrel.domain.errors import Invalid
from whimbrel.domain.flavor import Flavor
from whimbrel.placement.assignments import all_assignments
from whimbrel.placement.capacity import IndexCapacity
from whimbrel.placement.index import Index
from whimbrel.ports.placement.assignments import ResourceRequest
from whimbrel.scheduling.requirements.server import resource_request

KEYS = [
    *("resources:VCPU", "resources:MEMORY_MB", "resources:DISK_GB", "resources:PCPU", "resources1:VGPU"),
    *("resources2:VCPU", "resources_A:CUSTOM_X", "trait:CUSTOM_T", "trait1:CUSTOM_T", "trait_B:CUSTOM_T"),
    *("group_policy", "same_subtree", "same_subtree2", "hw:cpu_policy", "hw:cpu_thread_policy"),
    *("hw:emulator_threads_policy", "hw:cpu_dedicated_mask", "hw:cpu_realtime", "hw:cpu_realtime_mask", "hw:pmem"),
    *(
        "hw:mem_encryption",
        "hw:tpm_version",
        "hw:tpm_model",
        "os:secure_boot",
        "hw:viommu_model",
        "resources:",
        "trait:",
    ),
]
PROPERTIES = [key.replace(":", "_") for key in KEYS if key.startswith("hw")] + ["trait:CUSTOM_T", "hw_firmware_type"]
VALUES = [
    *(
        "0",
        "1",
        "2",
        "4",
        "-1",
        "",
        "none",
        "isolate",
        "required",
        "forbidden",
        "dedicated",
        "shared",
        "mixed",
        "require",
    ),
    *("1,2", "1,_A", "_B, 1", "0-1", "^0", "0-1,^1", "2-0", "0-", "true", "no", "2.0", "tpm-crb", "uefi", "intel", "²"),
]


def said(keys: list[str]) -> st.SearchStrategy[dict[str, str]]:
    return st.dictionaries(st.sampled_from(keys), st.sampled_from(VALUES) | st.text(max_size=5), max_size=6)


@settings(max_examples=examples(160))
@given(said(KEYS), said(PROPERTIES), st.booleans())
def test_it_is_a_request_or_a_sentence(specs: dict[str, str], properties: dict[str, str], has_local_root: bool) -> None:
    flavor = Flavor(flavor_id="1", name="m", vcpus=4, memory_mib=64, root_gib=1, extra_specs=specs)
    try:
        resources = resource_request(flavor, properties, has_local_root=has_local_root)
    except Invalid as refusal:
        assert refusal.reason.endswith((".", "'"))  # noqa: PT017 - whether it is refused is not known
        return
    for one in (resources, resources.otherwise):
        if one is not None:
            check(one)


def check(resources: ResourceRequest) -> None:
    assert resources.own or resources.groups
    assert all(
        amount > 0
        for one in (resources.own, *(group.resources for group in resources.groups))
        for amount in one.values()
    )
    nodes = Drawn(1).nodes(4)
    index, roots = Index(nodes, Random(1)), tuple(node.provider.root for node in nodes)
    capacity = IndexCapacity(index, roots)
    found = all_assignments(index, resources, roots, 2)
    for place, root in enumerate(roots):
        if isinstance(found[root], tuple):
            assert capacity.could_hold(resources)[place]
