"""Dedicated and shared CPUs: the CPU policies of flavors and images as resources and traits.

Source: Nova's names and rules, of `hw:cpu_policy`, `hw:cpu_thread_policy`, `hw:emulator_threads_policy` and the
masks.
"""

from collections.abc import Mapping

import msgspec
from os_resource_classes import PCPU, VCPU

from whimbrel.domain.errors import Invalid
from whimbrel.scheduling.requirements.hardware_options import TRUE, Options, contradiction

HYPERTHREADING = "HW_CPU_HYPERTHREADING"

POLICIES = ("shared", "dedicated", "mixed")
THREAD_POLICIES = ("prefer", "isolate", "require")
EMULATOR_POLICIES = ("share", "isolate")


class Cpus(msgspec.Struct, frozen=True, kw_only=True):
    """Resources and traits that replace a flavor's VCPUs; empty: the VCPUs stay."""

    resources: Mapping[str, int] = {}
    required: tuple[str, ...] = ()
    forbidden: frozenset[str] = frozenset()
    all_dedicated: bool = False


def cpus_of(options: Options, vcpus: int, asked: Mapping[str, int]) -> Cpus:
    """Return the result of the policies. asked: the sum of `resources:` over all groups.
    Raises: Invalid: they contradict each other, or one requires another.
    """
    policy, threads = _policy(options), _thread_policy(options)
    isolates = options.of_flavor("emulator_threads_policy", EMULATOR_POLICIES) == "isolate"
    _check_asked(policy, asked, vcpus, isolates=isolates)
    mask = _mask(options, policy, vcpus)
    if policy in (None, "shared") and not asked.get(PCPU):
        _check_shared(options, threads, isolates=isolates)
        return Cpus()
    dedicated = {None: 0, "dedicated": vcpus, "mixed": len(mask)}.get(policy, 0)
    resources = {PCPU: dedicated + isolates} if dedicated else {}
    return Cpus(
        resources={VCPU: vcpus - dedicated, **resources} if policy == "mixed" else resources,
        required=(HYPERTHREADING,) if threads == "require" else (),
        forbidden=frozenset({HYPERTHREADING}) if threads == "isolate" else frozenset(),
        all_dedicated=policy == "dedicated",
    )


def dedicated_cpus(specs: Mapping[str, str], properties: Mapping[str, str], vcpus: int) -> frozenset[int]:
    """Return which of a guest's CPUs are dedicated to it. Requests that would be refused have none."""
    options = Options(specs, properties)
    try:
        policy = _policy(options)
        return frozenset(range(vcpus)) if policy == "dedicated" else _mask(options, policy, vcpus)
    except Invalid:
        return frozenset()


def _policy(options: Options) -> str | None:
    flavors, images = options.of_flavor("cpu_policy", POLICIES), options.of_image("cpu_policy", POLICIES)
    stricter = {"shared": ("mixed", "dedicated"), "mixed": ("dedicated",)}
    if flavors and images in stricter.get(flavors, ()):
        raise contradiction("cpu_policy", flavors, images or "")
    return flavors or images


def _thread_policy(options: Options) -> str | None:
    flavors = options.of_flavor("cpu_thread_policy", THREAD_POLICIES)
    images = options.of_image("cpu_thread_policy", THREAD_POLICIES)
    if flavors not in (None, "prefer") and images not in (None, flavors):
        raise contradiction("cpu_thread_policy", flavors or "", images or "")
    return flavors or images


def _check_asked(policy: str | None, asked: Mapping[str, int], vcpus: int, *, isolates: bool) -> None:
    """Raises: Invalid: CPUs are requested in two ways, or their number is not that of the server."""
    shared, dedicated = asked.get(VCPU, 0), asked.get(PCPU, 0)
    if policy and (shared or dedicated):
        raise Invalid("Extra specs 'resources:VCPU' and 'resources:PCPU' cannot be had together with 'hw:cpu_policy'.")
    if shared and dedicated:
        raise Invalid("Extra specs 'resources:VCPU' and 'resources:PCPU' cannot be had together.")
    needed = vcpus + isolates
    if dedicated and dedicated != needed:
        because = ", one of them for 'hw:emulator_threads_policy=isolate'" if isolates else ""
        raise Invalid(f"Extra spec 'resources:PCPU' cannot be {dedicated}: the flavor needs {needed}{because}.")


def _check_shared(options: Options, threads: str | None, *, isolates: bool) -> None:
    """Raises: Invalid: an option requires dedicated CPUs."""
    requested = {
        "hw:cpu_thread_policy": bool(threads),
        "hw:emulator_threads_policy=isolate": isolates,
        "hw:cpu_dedicated_mask": options.of_flavor("cpu_dedicated_mask") is not None,
        "hw:cpu_realtime": _is_realtime(options),
    }
    for key, is_requested in requested.items():
        if is_requested:
            raise Invalid(f"Extra spec '{key}' needs dedicated CPUs: set 'hw:cpu_policy' to 'dedicated' or 'mixed'.")


def _is_realtime(options: Options) -> bool:
    return (options.of_flavor("cpu_realtime") or "").lower() in TRUE


def _mask(options: Options, policy: str | None, vcpus: int) -> frozenset[int]:
    """Return the dedicated CPUs under the policy `mixed`. Raises: Invalid: they are not specified, or twice."""
    dedicated = options.of_flavor("cpu_dedicated_mask")
    if policy == "dedicated" and dedicated is not None:
        raise Invalid("Extra spec 'hw:cpu_dedicated_mask' needs 'hw:cpu_policy' to be 'mixed'.")
    if policy != "mixed":
        return frozenset()
    realtime = _realtime_mask(options, vcpus)
    if (dedicated is None) == (realtime is None):
        raise Invalid(
            "With 'hw:cpu_policy=mixed' either 'hw:cpu_dedicated_mask' or 'hw:cpu_realtime_mask' says which CPUs are"
            " dedicated."
        )
    key, text = ("cpu_dedicated_mask", dedicated) if realtime is None else ("cpu_realtime_mask", realtime)
    found = cpu_set(f"hw:{key}", text or "", vcpus)
    if not found or len(found) == vcpus:
        raise Invalid(f"Extra spec 'hw:{key}' must leave some of the CPUs dedicated and some shared.")
    return found


def _realtime_mask(options: Options, vcpus: int) -> str | None:
    if not _is_realtime(options):
        return None
    everything = f"0-{vcpus - 1}"
    return options.of_image("cpu_realtime_mask") or options.of_flavor("cpu_realtime_mask") or everything


def cpu_set(key: str, text: str, vcpus: int) -> frozenset[int]:
    """Parse `0-3,^2`; a leading `^` starts from all CPUs. Raises: Invalid."""
    found = set(range(vcpus)) if text.strip().startswith("^") else set()
    for part in text.split(","):
        without = part.strip().startswith("^")
        first, dash, last = part.strip().removeprefix("^").partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise Invalid(f"Extra spec '{key}' cannot be '{text}': it is a list of CPUs such as '0-3,^2'.")
        some = range(int(first), int(last or first) + 1)
        if some and some[-1] >= vcpus:
            raise Invalid(f"Extra spec '{key}' cannot be '{text}': the flavor has CPUs 0 to {vcpus - 1} only.")
        found = found - set(some) if without else found | set(some)
    return frozenset(found)
