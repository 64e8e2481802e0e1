"""Numbers and choices about callers, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from longtask.core.errors import BadPlan
from longtask.core.policy import PLAN_BYTES_MAX

Network = IPv4Network | IPv6Network

ARCHIVES = "/v1/archives"  # what is sent here goes to a file, not into memory
ARCHIVE_TYPES = ("application/gzip", "application/x-gzip", "application/octet-stream")


@dataclass(frozen=True, slots=True)
class Policy:
    """`tokens`: asked for on this machine too.  `hosts`: further names under which browsers may call a server that asks
    for none.  `proxies`: addresses and networks whose `X-Forwarded-For` is believed; with one, tokens are asked for,
    since whoever comes through it may come from anywhere."""

    tokens: bool = False
    hosts: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()

    body_bytes_max: int = 4 * PLAN_BYTES_MAX  # a plan as JSON text may be written with escapes
    archive_bytes_max: int = 10_000_000_000  # of an archive that is imported
    bodies_bytes_max: int = 128_000_000  # of all requests that are being read just now
    body_s: float = 60.0  # so long may a body take to come
    json_depth_max: int = 100  # a plan needs ten
    headers_max: int = 100
    headers_bytes_max: int = 32_768
    target_bytes_max: int = 8_192

    caller_per_s: float = 500.0  # of one caller; a page that is reloaded often needs ten
    caller_burst: int = 2_000
    stranger_per_s: float = 10.0  # of one address, without a good token
    stranger_burst: int = 100
    streams_max: int = 2_000  # of this process; each costs some 50 KB
    streams_of_caller_max: int = 200  # of one token

    def __post_init__(self) -> None:
        self.networks  # noqa: B018  a wrong one is told at once

    @property
    def networks(self) -> tuple[Network, ...]:
        """Raises BadPlan."""
        found: list[Network] = []
        for text in self.proxies:
            try:
                found.append(ip_network(text, strict=False))
            except ValueError as error:
                raise BadPlan(f"proxy {text!r}: {error}; give an address, or a network such as 10.0.0.0/8") from error
        return tuple(found)


@lru_cache(maxsize=1_000)  # the same few addresses call again and again
def trusted(address: str, networks: tuple[Network, ...]) -> bool:
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    found = getattr(found, "ipv4_mapped", None) or found
    return any(found in network for network in networks)


def came_from(peer: str, forwarded: list[str], networks: tuple[Network, ...]) -> str:
    """The nearest address that is none of our own proxies'.  What stands further left in `X-Forwarded-For` was written
    by whoever called, and may be anything."""
    if not trusted(peer, networks):
        return peer
    nearest = peer
    for text in reversed([part.strip() for line in forwarded for part in line.split(",")]):
        try:
            nearest = str(ip_address(text.partition("%")[0]))
        except ValueError:
            return nearest
        if not trusted(nearest, networks):
            return nearest
    return nearest
