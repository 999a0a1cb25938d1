"""The scheduler's settings: [rules.scheduler] of cloud.toml. Names and defaults are Nova's."""

from typing import Annotated

import msgspec
from msgspec import Meta

Multiplier = Annotated[float, Meta(ge=-1e9, le=1e9)]
Some = Annotated[int, Meta(ge=1, le=1_000_000)]
Most = Annotated[int, Meta(ge=0, le=1_000_000)]

DEFAULT_FILTERS = (
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
)


class SchedulerRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An aggregate's metadata key with the name of a multiplier overrides it for its hosts; the lowest value counts."""

    enabled_filters: tuple[str, ...] = DEFAULT_FILTERS
    host_subset_size: Some = 1  # choose among this many of the best, differently for each request
    shuffle_best_same_weighed_hosts: bool = True

    cpu_weight_multiplier: Multiplier = 1.0
    ram_weight_multiplier: Multiplier = 1.0
    disk_weight_multiplier: Multiplier = 1.0
    build_failure_weight_multiplier: Multiplier = 1_000_000.0
    io_ops_weight_multiplier: Multiplier = -1.0
    pci_weight_multiplier: Multiplier = 1.0
    soft_affinity_weight_multiplier: Multiplier = 1.0
    soft_anti_affinity_weight_multiplier: Multiplier = 1.0
    hypervisor_version_weight_multiplier: Multiplier = 1.0
    num_instances_weight_multiplier: Multiplier = 0.0
    cross_cell_move_weight_multiplier: Multiplier = 1_000_000.0  # favors the server's cell; below 0: other cells
    image_props_weight_multiplier: Multiplier = 0.0  # above 0: servers of similar images together; below: apart
    image_props_weight_setting: tuple[str, ...] = ()  # "property=ratio"; empty: each property counts 1
    metrics_weight_multiplier: Multiplier = 1.0
    metrics_weight_setting: tuple[str, ...] = ()  # "metric=ratio", such as "cpu.percent=-1.0"; empty: ignore metrics
    metrics_required: bool = True  # excludes hosts that do not report one, even without MetricsFilter
    metrics_weight_of_unavailable: Multiplier = -10_000.0  # weight of such a host if they are not required
    zone_weight_multiplier: Multiplier = 1_000_000.0  # Whimbrel's own: favors the preferred zone

    max_io_ops_per_host: Most = 8  # of IoOpsFilter
    max_instances_per_host: Most = 50  # of NumInstancesFilter
    isolated_images: tuple[str, ...] = ()  # of IsolatedHostsFilter
    isolated_hosts: tuple[str, ...] = ()
    restrict_isolated_hosts_to_isolated_images: bool = True
    aggregate_image_properties_isolation_namespace: str = ""
    aggregate_image_properties_isolation_separator: str = "."
    image_properties_default_architecture: str = ""

    # Additional placement queries; off by default as in Nova
    disable_fallback_pcpu_query: bool = False  # if no host has dedicated CPUs: refuse, do not use shared ones
    query_placement_for_image_type_support: bool = False
    query_placement_for_routed_network_aggregates: bool = False
    image_metadata_prefilter: bool = False
    enable_isolated_aggregate_filtering: bool = False
    limit_tenants_to_placement_aggregate: bool = False
    placement_aggregate_required_for_tenants: bool = False
