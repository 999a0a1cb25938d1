"""ImagePropertiesWeigher: hosts by the images that their servers were made of."""

from typing import Any

from tests.unit.scheduling.capacity import aggregate, host, snapshot
from tests.unit.scheduling.passing import asking, rules
from whimbrel.domain.ids import HostName
from whimbrel.scheduling.pipeline import rank
from whimbrel.scheduling.weighers.by_name import WEIGHERS

LINUX, BSD = {"os_distro": "linux", "hw_machine_type": "q35"}, {"os_distro": "bsd", "hw_machine_type": "q35"}
IMAGES = {
    HostName("linux"): {"i1": 3},
    HostName("mixed"): {"i1": 1, "i2": 1, "unread": 5},
    HostName("bsd"): {"i2": 2},
    HostName("gone"): {"i1": 9},
}
HOSTS = [host(name) for name in ("linux", "mixed", "bsd", "empty")]
KEY = "image_props_weight_multiplier"


def weights(asked: dict[str, str], aggregates: Any = (), **settings: Any) -> dict[str, float]:
    others = {one.multiplier: 0.0 for one in WEIGHERS.values()}
    now = snapshot(
        HOSTS,
        images=IMAGES,
        image_properties={"i1": LINUX, "i2": BSD},
        aggregates=aggregates,
        rules=rules(**{**others, **settings}),
    )
    ranking = rank(asking(image_properties=asked), now)
    names = [now.fleet.names[place] for place in ranking.order.tolist()]
    return dict(zip(names, ranking.parts.get("ImagePropertiesWeigher", [0.0] * len(names)), strict=True))


def test_each_property_in_common_counts_once_for_each_server() -> None:
    # linux: 3 of 2 in common; mixed: 2 + 1; bsd: 2 of 1
    assert weights(LINUX, image_props_weight_multiplier=6.0) == {"linux": 6.0, "mixed": 3.0, "bsd": 2.0, "empty": 0.0}
    assert list(weights(LINUX, image_props_weight_multiplier=-1.0))[-1] == "linux"


def test_a_setting_says_which_properties_count_and_how_much() -> None:
    only = {"image_props_weight_multiplier": 3.0, "image_props_weight_setting": ("os_distro=2",)}
    assert weights(LINUX, **only) == {"linux": 3.0, "mixed": 1.0, "bsd": 0.0, "empty": 0.0}
    apart = {"image_props_weight_multiplier": 1.0, "image_props_weight_setting": ("os_distro=1", "hw_machine_type=-2")}
    assert next(iter(weights(LINUX, **apart))) == "empty"  # 0; mixed -3, linux -3, bsd -4


def test_who_has_no_properties_in_common_or_none_at_all_is_no_matter() -> None:
    for asked in ({}, {"os_distro": "other"}):
        assert set(weights(asked, image_props_weight_multiplier=1.0).values()) == {0.0}
    assert set(weights(LINUX).values()) == {0.0}


def test_an_aggregate_may_have_its_own_multiplier() -> None:
    said = weights(LINUX, aggregates=[aggregate(1, ["linux"], **{KEY: "-2"})], image_props_weight_multiplier=6.0)
    assert said == {"mixed": 3.0, "bsd": 2.0, "empty": 0.0, "linux": -2.0}
