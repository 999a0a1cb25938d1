"""I5: no provider is over capacity, and its recorded usage equals the sum of its allocations."""

from collections.abc import Iterator

from whimbrel.ports.placement.capacity import ProviderState
from whimbrel.ports.placement.placement import Miscount
from whimbrel.proof.violation import Kind, Violation


def within_capacity(provider: ProviderState) -> Iterator[Violation]:
    over = {name: -free for name, free in provider.free.items() if free < 0}
    if over:
        words = ", ".join(f"{name} {amount}" for name, amount in sorted(over.items()))
        yield Violation(invariant="I5", kind=Kind.OVER_CAPACITY, subject=provider.id, evidence={"over": over},
                        sentence=f"more is held of provider {provider.name} than it has: {words} too much")  # fmt: skip


def counted(one: Miscount) -> Violation:
    if not one.is_offered:
        return Violation(
            invariant="I5",
            kind=Kind.NOT_OFFERED,
            subject=one.provider,
            about=one.resource_class,
            sentence=f"{one.held} {one.resource_class} of provider {one.name} are allocated, and it has none of it",
            evidence={"provider": one.name, "held": one.held},
        )
    return Violation(
        invariant="I5",
        kind=Kind.MISCOUNTED,
        subject=one.provider,
        about=one.resource_class,
        sentence=f"provider {one.name} records {one.used} {one.resource_class} as used, and {one.held} are allocated",
        evidence={"provider": one.name, "used": one.used, "held": one.held},
    )
