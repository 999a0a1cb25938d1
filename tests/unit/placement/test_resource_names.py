"""Which names clients may make."""

import pytest

from whimbrel.placement.resource_names import STANDARD_CLASSES, is_custom, standard_traits


@pytest.mark.parametrize("name", ["CUSTOM_A", "CUSTOM_0_A", "CUSTOM_" + "A" * 248])
def test_custom(name: str) -> None:
    assert is_custom(name)


@pytest.mark.parametrize("name", ["", "VCPU", "CUSTOM_", "CUSTOM_a", "CUSTOM_A\n", "XCUSTOM_A", "CUSTOM_" + "A" * 249])
def test_not_custom(name: str) -> None:
    assert not is_custom(name)


def test_standard_names() -> None:
    assert "VCPU" in STANDARD_CLASSES
    assert "COMPUTE_STATUS_DISABLED" in standard_traits()
