"""Validation of [keystone]: a complete login, and services that work together."""

from whimbrel.domain.errors import Invalid
from whimbrel.domain.ip_addresses import is_plain_beyond_loopback
from whimbrel.settings.cell_sections import LibvirtHost
from whimbrel.settings.sections import CloudConfig, ImagesTable, KeystoneTable, VolumesTable


def check_keystone(name: str, config: CloudConfig) -> None:
    """name: of the file. Raises: Invalid."""
    table = config.keystone
    if config.services.image_relay and "image" not in config.external:
        raise Invalid(
            f"{name}: [services] has 'image_relay', for an image service that others run, and this cloud has its own:"
            " remove it"
        )
    if table is None:
        return
    _check_login(name, table)
    if not table.insecure and is_plain_beyond_loopback(table.auth_url):
        raise Invalid(
            f"{name}: [keystone]: 'auth_url' is {table.auth_url}, and passwords would be sent there without TLS; write"
            " https://, or set 'insecure = true' in [keystone]"
        )
    if table.key_file and not table.cert_file:
        raise Invalid(f"{name}: [keystone] has 'key_file' without 'cert_file'; give it both")
    if config.services.identity:
        raise Invalid(
            f"{name}: [services] has 'identity', and [keystone] says where the identity service is: remove one of them"
        )
    _check_services(name, config, table)


def _check_login(name: str, table: KeystoneTable) -> None:
    password = (table.username, table.password_file)
    credential = (table.application_credential_id, table.application_credential_secret_file)
    if any(password) == any(credential):
        raise Invalid(
            f"{name}: [keystone] has to have one login: 'username' and 'password_file', or 'application_credential_id'"
            " and 'application_credential_secret_file'"
        )
    if any(password) and not all(password):
        raise Invalid(f"{name}: [keystone] has one of 'username' and 'password_file'; give it both")
    if any(credential) and not all(credential):
        raise Invalid(
            f"{name}: [keystone] has one of 'application_credential_id' and 'application_credential_secret_file'; give"
            " it both"
        )
    for of in ("user", "project"):
        if getattr(table, f"{of}_domain_name") and getattr(table, f"{of}_domain_id"):
            raise Invalid(f"{name}: [keystone] has '{of}_domain_name' and '{of}_domain_id'; remove one of them")


def _check_services(name: str, config: CloudConfig, table: KeystoneTable) -> None:
    """Raises: Invalid: services that cannot work beside each other, or settings of a service that is not embedded."""
    if "volume" in table.services and "image" not in table.services:
        raise Invalid(
            f"{name}: [keystone]: 'services' has 'volume' without 'image'; Cinder makes volumes of images in the image"
            " service of its own catalog: add 'image', or remove 'volume'"
        )
    defaults = {
        "image": ("images", config.images, ImagesTable()),
        "volume": ("volumes", config.volumes, VolumesTable()),
    }
    for service, (own, said, default) in defaults.items():
        if service in table.services and said != default:
            raise Invalid(
                f"{name}: [{own}] has settings of the embedded {service} service, which this cloud does not have:"
                f" remove the table, or remove '{service}' from 'services' of [keystone]"
            )
    for _, host in config.hosts():
        if "network" in table.services and isinstance(host, LibvirtHost) and host.guest_nics == "bridge":
            raise Invalid(
                f"{name}: host '{host.name}' has guest_nics = 'bridge', the networks of the embedded network service;"
                " with an external one its own agents make the networks: write guest_nics = 'ovs' or 'tap'"
            )
