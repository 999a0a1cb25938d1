"""Requirements of flavors and images besides sizes: each option that affects placement, with its traits and
resources.

Source: Nova's translation of `hw:` and `os:` extra specs, and its pre-filters.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec
from os_resource_classes import MEM_ENCRYPTION_CONTEXT, normalize_name

from whimbrel.domain.errors import Invalid
from whimbrel.domain.scheduler_settings import SchedulerRules
from whimbrel.scheduling.requirements.hardware_options import Options, contradiction

_TPM = "COMPUTE_SECURITY_TPM"
_ENCRYPTED = "COMPUTE_EPHEMERAL_ENCRYPTION"

# Image property -> prefix of the required trait for its value.
_METADATA: Mapping[str, str] = {
    "hw_cdrom_bus": "COMPUTE_STORAGE_BUS",
    "hw_disk_bus": "COMPUTE_STORAGE_BUS",
    "hw_video_model": "COMPUTE_GRAPHICS_MODEL",
    "hw_vif_model": "COMPUTE_NET_VIF_MODEL",
    "hw_architecture": "HW_ARCH",
    "hw_emulation_architecture": "COMPUTE_ARCH",
}


class Features(msgspec.Struct, frozen=True, kw_only=True):
    resources: Mapping[str, int] = {}
    required: tuple[str, ...] = ()  # traits
    root_required: tuple[str, ...] = ()


def features_of(
    specs: Mapping[str, str], properties: Mapping[str, str], disk_format: str | None, rules: SchedulerRules
) -> Features:
    """disk_format: of the image to copy to the host, if any. Raises: Invalid: contradictions."""
    options = Options(specs, properties)
    root = [*_devices(options, specs), *_tpm_secrets(options)]
    if rules.image_metadata_prefilter:
        root += _metadata(properties)
    if rules.query_placement_for_image_type_support and disk_format:
        root.append(f"COMPUTE_IMAGE_TYPE_{_name(disk_format)}")
    return Features(
        resources={**_encrypted_memory(options), **_persistent_memory(specs)},
        required=tuple(_security(options)),
        root_required=tuple(root),
    )


# Amounts


def _encrypted_memory(options: Options) -> dict[str, int]:
    if not options.flag("mem_encryption"):
        return {}
    if options.of_image("firmware_type") != "uefi":
        raise Invalid("'mem_encryption' needs an image whose property 'hw_firmware_type' is 'uefi'.")
    machine = options.of_image("machine_type")
    if machine is not None and "q35" not in machine:
        raise Invalid(
            f"'mem_encryption' needs a machine of type q35, and image property 'hw_machine_type' is '{machine}'."
        )
    return {MEM_ENCRYPTION_CONTEXT: 1}


def _persistent_memory(specs: Mapping[str, str]) -> dict[str, int]:
    labels = [label.strip() for label in specs.get("hw:pmem", "").split(",")]
    return dict(Counter(normalize_name(f"PMEM_NAMESPACE_{label}") for label in labels if label))


# Traits of the provider of memory and CPUs


def _security(options: Options) -> Iterator[str]:
    if _secure_boot(options):
        yield "COMPUTE_SECURITY_UEFI_SECURE_BOOT"
    if version := options.agreed("tpm_version", ("1.2", "2.0")):
        model = options.agreed("tpm_model", ("tpm-tis", "tpm-crb")) or "tpm-tis"
        if model == "tpm-crb" and version != "2.0":
            raise Invalid("'tpm_model' cannot be 'tpm-crb' with 'tpm_version' 1.2.")
        yield f"{_TPM}_{_name(version)}"
        yield f"{_TPM}_{_name(model.removeprefix('tpm-'))}"
    if options.flag("firmware_stateless"):
        yield "COMPUTE_SECURITY_STATELESS_FIRMWARE"
    if options.agreed("pci_numa_affinity_policy", ("required", "preferred", "legacy", "socket")) == "socket":
        yield "COMPUTE_SOCKET_PCI_NUMA_AFFINITY"
    addresses = {"passthrough": "COMPUTE_ADDRESS_SPACE_PASSTHROUGH", "emulate": "COMPUTE_ADDRESS_SPACE_EMULATED"}
    if mode := options.agreed("maxphysaddr_mode", tuple(addresses)):
        yield addresses[mode]


def _secure_boot(options: Options) -> bool:
    words = ("disabled", "optional", "required")
    flavors, images = (of("secure_boot", words, "os") for of in (options.of_flavor, options.of_image))
    if {flavors, images} == {"disabled", "required"}:
        raise contradiction("secure_boot", flavors or "", images or "", "os")
    return "required" in (flavors, images)


# Traits of the host itself


def _devices(options: Options, specs: Mapping[str, str]) -> Iterator[str]:
    if specs.get("accel:device_profile"):
        yield "COMPUTE_ACCELERATORS"
    if options.flag("virtio_packed_ring"):
        yield "COMPUTE_NET_VIRTIO_PACKED"
    if options.flag("ephemeral_encryption"):
        yield _ENCRYPTED
        if kind := options.agreed("ephemeral_encryption_format"):
            yield f"{_ENCRYPTED}_{_name(kind)}"
    if model := options.agreed("viommu_model", ("intel", "smmuv3", "virtio", "auto")):
        yield f"COMPUTE_VIOMMU_MODEL_{_name(model)}"
    if options.agreed("sound_model") == "virtio":
        yield "COMPUTE_SOUND_MODEL_VIRTIO"


def _tpm_secrets(options: Options) -> Iterator[str]:
    if options.agreed("tpm_version"):
        kept_by = options.of_flavor("tpm_secret_security", ("user", "host", "deployment")) or "user"
        yield f"{_TPM}_SECRET_SECURITY_{_name(kept_by)}"


def _metadata(properties: Mapping[str, str]) -> list[str]:
    return [f"{begin}_{_name(properties[key])}" for key, begin in _METADATA.items() if key in properties]


def _name(value: str) -> str:
    """Return a value as written in trait names."""
    return re.sub(r"[^A-Z0-9]+", "_", value.upper())
