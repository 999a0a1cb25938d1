"""The virtual hardware that an image and a flavor ask for, and the traits of hosts that have it.

Source: Nova's documentation of useful image properties and of extra specs; where both name a device, its precedence.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast, get_args

from whimbrel.domain.errors import Invalid
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.guest_hardware import NO_REQUESTS, CpuTopology, DiskBus, Firmware, Hardware, InputBus
from whimbrel.scheduling.requirements.hardware_options import Options, truth

VIF_MODELS = (
    *("virtio", "e1000", "e1000e", "igb", "rtl8139", "ne2k_pci", "pcnet"),
    *("lan9118", "netfront", "spapr-vlan", "sriov", "vmxnet", "vmxnet3"),
)
VIDEO_MODELS = ("vga", "cirrus", "vmvga", "xen", "qxl", "virtio", "gop", "none", "bochs")
SCSI_MODELS = ("virtio-scsi", "lsilogic", "lsisas1068", "lsisas1078")
OTHER_SCSI_MODELS = ("buslogic", "ibmvscsi", "vmpvscsi")
"""Models that Nova knows, too: of other hypervisors, or (vmpvscsi) for one disk only by libvirt's addresses."""
WATCHDOG_ACTIONS = ("none", "pause", "poweroff", "reset", "disabled")
FIRMWARES = ("bios", "uefi")
MOST_SERIAL_PORTS = 4
"""As many serial ports as QEMU's PC has."""

MACHINE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_UNLIMITED = 65536


def hardware_of(flavor: Flavor, properties: Mapping[str, str], root_bus: DiskBus | None = None) -> Hardware:
    """root_bus: requested for the local root disk. Raises: Invalid: an unknown value, or a contradiction."""
    if root_bus is None and not _names_any(flavor.extra_specs, "hw") and not _names_any(properties, "hw_", "os_type"):
        return NO_REQUESTS  # lists ask for each of their servers
    specs, options = flavor.extra_specs, Options(flavor.extra_specs, properties)
    machine = options.of_image("machine_type") or ""
    if machine and not MACHINE.fullmatch(machine):
        raise Invalid(f"Image property 'hw_machine_type' cannot be '{machine}': it is a name such as 'q35'.")
    tablet, keyboard = _input(options)
    allowed, rate_bytes, period_ms = _rng(options, specs)
    found = Hardware(
        machine=machine,
        firmware=cast(Firmware, options.of_image("firmware_type", FIRMWARES) or "bios"),
        disk_bus=cast(DiskBus, options.of_image("disk_bus", get_args(DiskBus)) or "virtio"),
        root_bus=root_bus,
        scsi_model=_scsi_model(options),
        cdrom_bus=cast(DiskBus | None, options.of_image("cdrom_bus", get_args(DiskBus))),
        vif_model=options.of_image("vif_model", VIF_MODELS) or "virtio",
        video_model=options.of_image("video_model", VIDEO_MODELS) or "",
        video_ram_mib=_video_ram(options, specs),
        rng=allowed,
        rng_rate_bytes=rate_bytes,
        rng_period_ms=period_ms,
        watchdog=_watchdog(options),
        serial_ports=_serial_ports(options),
        tablet=tablet,
        keyboard=keyboard,
        boot_menu=_boot_menu(options),
        hpet=truth("Image property 'hw_time_hpet'", options.of_image("time_hpet")),
        topology=topology_of(options, flavor.vcpus),
        is_windows=properties.get("os_type") == "windows",
    )
    _check_buses(found)
    return found


def _names_any(mapping: Mapping[str, str], *prefixes: str) -> bool:
    return any(name.startswith(prefixes) for name in mapping)


def _check_buses(found: Hardware) -> None:
    if found.bus_of_cdroms == "virtio":
        raise Invalid("Image property 'hw_cdrom_bus' cannot be 'virtio': no guest has a CD-ROM on this bus.")
    if found.is_q35 and "ide" in (found.disk_bus, found.bus_of_root, found.bus_of_cdroms):
        raise Invalid(f"A machine of type '{found.machine}' has no bus 'ide': use 'sata' or another one.")


def traits_of(hardware: Hardware, buses: Iterable[DiskBus | None] = ()) -> tuple[str, ...]:
    """Return the traits of hosts that can run such a guest. buses: of its volumes, as far as requests named them."""
    named = {hardware.disk_bus, hardware.root_bus, hardware.cdrom_bus, *buses} - {None, "virtio"}
    traits = [f"COMPUTE_STORAGE_BUS_{bus}" for bus in sorted(str(bus) for bus in named)]
    if hardware.vif_model != "virtio":
        traits.append(f"COMPUTE_NET_VIF_MODEL_{hardware.vif_model}")
    if hardware.video_model:
        traits.append(f"COMPUTE_GRAPHICS_MODEL_{hardware.video_model}")
    if hardware.firmware != "bios":
        traits.append(f"COMPUTE_FIRMWARE_{hardware.firmware}")
    return tuple(re.sub(r"[^A-Z0-9]+", "_", trait.upper()) for trait in traits)


# Single devices


def _scsi_model(options: Options) -> str:
    model = options.of_image("scsi_model", (*SCSI_MODELS, *OTHER_SCSI_MODELS)) or ""
    if model in OTHER_SCSI_MODELS:
        raise Invalid(
            f"Image property 'hw_scsi_model' cannot be '{model}': no host of this cloud has such controllers."
        )
    return model


def _video_ram(options: Options, specs: Mapping[str, str]) -> int:
    asked = _number("Image property 'hw_video_ram'", options.of_image("video_ram")) or 0
    most = _number("Flavor extra spec 'hw_video:ram_max_mb'", specs.get("hw_video:ram_max_mb")) or 0
    if asked > most:
        raise Invalid(
            f"The requested amount of video memory {asked} is higher than the maximum allowed by flavor {most}."
        )
    return asked


def _rng(options: Options, specs: Mapping[str, str]) -> tuple[bool, int, int]:
    """Return whether there is a source of random numbers, and its limit: bytes in each period of milliseconds."""
    options.of_image("rng_model", ("virtio",))
    key = "hw_rng:rate_bytes"
    if truth("Flavor extra spec 'hw_rng:allowed'", specs.get("hw_rng:allowed")) is False:
        return False, 0, 0
    rate_bytes = _number(f"Flavor extra spec '{key}'", specs.get(key)) or 0
    period_ms = _number("Flavor extra spec 'hw_rng:rate_period'", specs.get("hw_rng:rate_period")) or 0
    return True, rate_bytes, period_ms if rate_bytes else 0


def _watchdog(options: Options) -> str:
    action = options.of_image("watchdog_action", WATCHDOG_ACTIONS)
    action = action or options.of_flavor("watchdog_action", WATCHDOG_ACTIONS)
    return "" if action in (None, "disabled") else action or ""


def _serial_ports(options: Options) -> int:
    key = "serial_port_count"
    flavors = _number(f"Flavor extra spec 'hw:{key}'", options.of_flavor(key))
    images = _number(f"Image property 'hw_{key}'", options.of_image(key))
    if flavors is not None and images is not None and images > flavors:
        raise Invalid(
            "Forbidden to exceed flavor value of number of serial ports passed in image meta:"
            f" 'hw_{key}' is {images}, 'hw:{key}' is {flavors}."
        )
    ports = images if images is not None else flavors
    if ports is not None and ports > MOST_SERIAL_PORTS:
        raise Invalid(f"A guest has at most {MOST_SERIAL_PORTS} serial ports: '{key}' is {ports}.")
    return ports or 1


def _input(options: Options) -> tuple[InputBus | None, InputBus | None]:
    """Return the buses of the tablet and of the keyboard."""
    bus = cast(InputBus | None, options.of_image("input_bus", get_args(InputBus)))
    model = options.of_image("pointer_model", ("usbtablet", "ps2mouse"))
    return bus or ("usb" if model == "usbtablet" else None), bus


def _boot_menu(options: Options) -> bool:
    images = truth("Image property 'hw_boot_menu'", options.of_image("boot_menu"))
    flavors = truth("Flavor extra spec 'hw:boot_menu'", options.of_flavor("boot_menu"))
    return bool(flavors if images is None else images)


# Processors


def topology_of(options: Options, vcpus: int) -> CpuTopology | None:
    """Return the topology nearest to the requested one; None: nothing is requested. Raises: Invalid.

    The flavor's numbers count if it has any, else the image's, which must be within the flavor's maxima.
    """
    of_flavor, of_image = (dict(_numbers(of)) for of in (options.of_flavor, options.of_image))
    if not of_flavor and not of_image:
        return None
    most = []
    for part in ("sockets", "cores", "threads"):
        limit, wanted = of_flavor.get(f"max_{part}"), of_image.get(f"max_{part}")
        if limit is not None and wanted is not None and wanted > limit:
            raise Invalid(
                f"Image vCPU limits exceed permitted: 'hw_cpu_max_{part}' is {wanted}, the flavor's is {limit}."
            )
        most.append(wanted if wanted is not None else limit if limit is not None else _UNLIMITED)
    names = ("sockets", "cores", "threads")
    chosen = of_flavor if any(name in of_flavor for name in names) else of_image
    wanted_parts = [chosen.get(name) for name in names]
    for name, number, limit in zip(names, wanted_parts, most, strict=True):
        if number is not None and number > limit:
            raise Invalid(f"Image vCPU topology exceeds permitted: '{name}' is {number}, at most {limit} are allowed.")
    possible = [
        CpuTopology(sockets, cores, vcpus // sockets // cores)
        for sockets in range(1, min(vcpus, most[0]) + 1)
        if vcpus % sockets == 0
        for cores in range(1, min(vcpus // sockets, most[1]) + 1)
        if vcpus // sockets % cores == 0 and vcpus // sockets // cores <= most[2]
    ]
    if not possible:
        raise Invalid(
            f"No topology of at most {most[0]} sockets, {most[1]} cores and {most[2]} threads has {vcpus} vCPUs."
        )
    return max(possible, key=lambda one: (_matches(one, wanted_parts), one.sockets, one.cores))


def _matches(one: CpuTopology, wanted: list[int | None]) -> int:
    has = (one.sockets, one.cores, one.threads)
    return sum(part == number for part, number in zip(has, wanted, strict=True) if number is not None)


def _numbers(of: Any) -> Iterator[tuple[str, int]]:
    for name in (f"{limit}{part}" for limit in ("", "max_") for part in ("sockets", "cores", "threads")):
        if (number := _number(f"'cpu_{name}'", of(f"cpu_{name}"))) is not None:
            if number == 0:
                raise Invalid(f"'cpu_{name}' cannot be 0: it is a whole number from 1 on.")
            yield name, number


# Values


def _number(what: str, value: str | None) -> int | None:
    if value is None:
        return None
    if not re.fullmatch(r"[0-9]{1,9}", value.strip()):
        raise Invalid(f"{what} cannot be '{value}': it is a whole number.")
    return int(value)
