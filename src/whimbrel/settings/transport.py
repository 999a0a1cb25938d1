"""What is protected in transit: secrets leave the machine with TLS only, unless the settings say `insecure`."""

from ipaddress import IPv4Network, IPv6Network, ip_address
from urllib.parse import urlsplit

from whimbrel.domain.errors import Invalid
from whimbrel.domain.ip_addresses import is_loopback, is_plain_beyond_loopback
from whimbrel.settings.sections import ServicesTable, TlsTable


def is_in(host: str, network: IPv4Network | IPv6Network) -> bool:
    """Check whether this is an address of the network."""
    try:
        return ip_address(host) in network
    except ValueError:
        return False


def check_listener(host: str, tls: TlsTable) -> None:
    """Raises: Invalid: passwords and tokens would arrive at this address without TLS."""
    if not tls.is_on and not tls.insecure and not is_loopback(host):
        raise Invalid(
            f"at {host} passwords and tokens of other machines would arrive without TLS: set 'cert_file' and 'key_file'"
            " in [tls] of the settings, or 'insecure = true' there if a proxy or the network protects them, or listen"
            " at 127.0.0.1"
        )


def check_target(url: str | None, option: str, services: ServicesTable) -> None:
    """Raises: Invalid: no URL, or tokens would be sent there without TLS. option: with which it was given."""
    if url is None:
        return
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise Invalid(f"{option} {url} is no URL: give one such as https://cloud.example.org")
    if not services.insecure and is_plain_beyond_loopback(url):
        raise Invalid(
            f"{option} is {url}, and tokens would be sent there without TLS; write https://, or set 'insecure = true'"
            " in [services] of the settings"
        )
