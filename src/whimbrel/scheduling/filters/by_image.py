"""ImagePropertiesFilter: the processor, hypervisor and hypervisor version that an image requires.

A host with unknown properties passes: simulated hosts report no processor and can play any.
"""

import operator
import re
from collections.abc import Callable, Iterator, Mapping

from whimbrel.scheduling.constraint import Constraint
from whimbrel.scheduling.filters.by_capability import architecture
from whimbrel.scheduling.request import Request
from whimbrel.scheduling.snapshot import Snapshot

NAME = "ImagePropertiesFilter"
HVM = "hvm"  # the mode of every guest
HYPERVISORS = {"qemu": {"qemu", "kvm"}, "simulated": {"simulated", "qemu", "kvm"}}
"""Names that images may use for a type of hypervisor; other types are known by their own name."""

Version = tuple[int, ...]


def image_properties(request: Request, snapshot: Snapshot) -> Iterator[Constraint]:
    asked, fleet = request.image_properties, snapshot.fleet
    default = snapshot.rules.image_properties_default_architecture
    if wanted := _canonical(_one(asked, "hw_architecture", "architecture") or default, _ARCHITECTURES):
        passes = fleet.where("cpu_info", lambda info: _canonical(architecture(info), _ARCHITECTURES) in ("", wanted))
        yield Constraint(NAME, passes, f"the image is for processors of the architecture {wanted}")
    if hypervisor := _one(asked, "img_hv_type", "hypervisor_type").lower():
        passes = fleet.where("hypervisor_type", lambda kind: hypervisor in _names_of(kind.lower()))
        yield Constraint(NAME, passes, f"the image is for the hypervisor {hypervisor}")
    if mode := _canonical(_one(asked, "hw_vm_mode", "vm_mode"), _MODES):
        passes = snapshot.all if mode == HVM else ~snapshot.all
        yield Constraint(NAME, passes, f"the image is for guests of the mode {mode}")
    if versions := _one(asked, "img_hv_requested_version", "hypervisor_version_requires"):
        yield _of_version(versions, snapshot)


def _of_version(wanted: str, snapshot: Snapshot) -> Constraint:
    tests = _version_tests(wanted)
    if tests is None:
        words = f"the image asks for versions of a hypervisor by '{wanted}', which is not such as '>=6.2, <8'"
        return Constraint(NAME, ~snapshot.all, words)
    passes = snapshot.fleet.where(
        "hypervisor_version", lambda number: all(compare(_version(number), limit) for compare, limit in tests)
    )
    return Constraint(NAME, passes, f"the image asks for a hypervisor of version {wanted}")


def _names_of(kind: str) -> set[str]:
    return HYPERVISORS.get(kind, {kind})


def _one(properties: Mapping[str, str], name: str, old_name: str) -> str:
    return str(properties.get(name) or properties.get(old_name) or "")


def _canonical(name: str, same: Mapping[str, str]) -> str:
    return same.get(name.lower(), name.lower())


_ARCHITECTURES = {"amd64": "x86_64", "x86-64": "x86_64", **dict.fromkeys(("i386", "i486", "i586"), "i686")}
_MODES = {"hv": HVM, "baremetal": HVM, "pv": "xen"}

_TEST = re.compile(r"\s*(<=|>=|<|>|!=|==)\s*(\d+(?:\.\d+){0,2})\s*")
_COMPARE: Mapping[str, Callable[[Version, Version], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


def _version_tests(wanted: str) -> list[tuple[Callable[[Version, Version], bool], Version]] | None:
    """Parse limits such as '>=6.2, <8'."""
    tests = []
    for part in wanted.split(","):
        if (found := _TEST.fullmatch(part)) is None:
            return None
        numbers = [int(number) for number in found[2].split(".")]
        tests.append((_COMPARE[found[1]], (*numbers, 0, 0)[:3]))
    return tests


def _version(number: int) -> Version:
    """Parse the version number of a hypervisor as hosts report it: 6002001 is 6.2.1."""
    return number // 1_000_000, number // 1000 % 1000, number % 1000
