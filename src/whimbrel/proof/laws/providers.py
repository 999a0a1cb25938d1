"""I5: no provider is over capacity."""

from collections.abc import Iterator

from whimbrel.ports.placement import ProviderState
from whimbrel.proof.violation import Violation


def within_capacity(provider: ProviderState) -> Iterator[Violation]:
    over = {name: -free for name, free in provider.free.items() if free < 0}
    if over:
        words = ", ".join(f"{name} {amount}" for name, amount in sorted(over.items()))
        yield Violation(law="I5", kind="over_capacity", subject=provider.id, evidence={"over": over},
                        sentence=f"more is held of provider {provider.name} than it has: {words} too much")  # fmt: skip
