"""One POST to an address that a plan or a user named, by a program that stands inside a network.

- An address that is not public (loopback, private, link-local, the cloud's metadata, multicast …) is refused unless it
  is on the allow-list.  What is looked at is the address that is then connected to, and no name is looked up twice: a
  name that changes its meaning between the look and the connection gains nothing.
- Plain `http` is for allowed addresses only.  Redirects are not followed, and no proxy of the environment is asked.
- The whole exchange ends at its deadline, however slowly the other side drips; `cut` ends it at once.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import SplitResult, urlsplit

from longtask import __version__
from longtask.core.errors import BadPlan

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

ANSWER_BYTES_MAX = 64_000
URL_LENGTH_MAX = 2_000
CONNECT_MAX_S = 10.0
AGENT = f"longtask/{__version__}"
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class PostError(Exception):
    """It was not sent, or no answer came; waiting may mend it."""


class AddressRefused(PostError):
    """Nobody may send there; waiting does not mend it."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes  # the first ANSWER_BYTES_MAX
    retry_after: str | None = None

    @property
    def accepted(self) -> bool:
        return 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class Allowed:
    """What may be reached though it is not public: networks, and names (`*.corp.example` too) wherever they lead."""

    networks: tuple[Network, ...] = ()
    names: tuple[str, ...] = ()

    @classmethod
    def read(cls, entries: Iterable[str], setting: str) -> Allowed:
        """Raises BadPlan, naming the setting."""
        networks: list[Network] = []
        names: list[str] = []
        for entry in entries:
            try:
                networks.append(ipaddress.ip_network(entry, strict=False))
            except ValueError:
                if not entry or any(c in entry for c in "/: \t@"):
                    raise BadPlan(
                        f"{setting}: {entry!r} is no network (10.0.0.0/8), no address and no name (ci.internal)"
                    ) from None
                names.append(entry.lower().rstrip("."))
        return cls(tuple(networks), tuple(names))

    def named(self, host: str) -> bool:
        return any(fnmatchcase(host.lower().rstrip("."), name) for name in self.names)

    def holds(self, address: Address) -> bool:
        return any(address.version == network.version and address in network for network in self.networks)


def check_url(url: str) -> SplitResult:
    """Raises AddressRefused for what can be told without asking anybody."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise AddressRefused("the address cannot be read; write https://HOST/PATH") from None
    if len(url) > URL_LENGTH_MAX or any(c <= " " or c == "\x7f" for c in url):
        raise AddressRefused(f"the address has blanks, or more than {URL_LENGTH_MAX:,} characters")
    if parts.scheme not in ("https", "http") or not host:
        raise AddressRefused(f"address {shown(url)!r}: write https://HOST/PATH")
    if parts.username is not None or parts.password is not None:
        raise AddressRefused(f"address {shown(url)!r} holds a name or a password; send secrets in a header")
    return parts


def shown(url: str) -> str:
    """Without what may be secret: user, password, query and fragment."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "(unreadable)"
    return f"{parts.scheme}://{host}{port}{parts.path}"


def public(address: Address) -> bool:
    """Also of the IPv4 address that an IPv6 one carries."""
    if isinstance(address, ipaddress.IPv6Address):
        carried = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if carried is None and address in NAT64:
            carried = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        if carried is not None:
            return public(carried)
    return address.is_global and not address.is_multicast


class Post:
    """One exchange.  `send` blocks, in a thread of its own; `cut` may be called from any other."""

    def __init__(self, url: str, body: bytes, headers: Mapping[str, str], allowed: Allowed, timeout_s: float) -> None:
        self._url, self._body, self._headers, self._allowed = url, body, headers, allowed
        self._until = time.monotonic() + timeout_s
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._why: str | None = None

    def send(self) -> Answer:
        """Raises PostError."""
        parts = check_url(self._url)
        timer = threading.Timer(self._timeout_s, self.cut, [f"no answer within {self._timeout_s:g} s"])
        timer.daemon = True
        timer.start()
        try:
            return self._exchange(parts)
        except AddressRefused:
            raise
        except (OSError, http.client.HTTPException, PostError, ValueError) as error:
            raise PostError(self._why or f"{_words(error)}") from error
        finally:
            timer.cancel()
            self.cut("over")

    def cut(self, why: str) -> None:
        with self._lock:
            self._why = self._why or why
            line, self._socket = self._socket, None
        if line is not None:
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)  # wakes whoever reads from it
            line.close()

    def _exchange(self, parts: SplitResult) -> Answer:
        assert parts.hostname is not None
        secure = parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
        line = self._connect(parts.hostname, port, secure)
        talk = http.client.HTTPConnection(parts.hostname, port)
        talk.default_port = 443 if secure else 80
        talk.auto_open = 0
        talk.sock = line
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        head = {"Content-Type": "application/json", "User-Agent": AGENT, "Connection": "close", **self._headers}
        talk.request("POST", path, self._body, head)
        answer = talk.getresponse()
        body = answer.read(ANSWER_BYTES_MAX)
        if self._why:  # a line that is cut within the headers reads as their end
            raise PostError(self._why)
        return Answer(answer.status, body, answer.getheader("Retry-After"))

    def _connect(self, host: str, port: int, secure: bool) -> socket.socket:
        last: OSError | None = None
        for address in reachable(host, port, secure, self._allowed):
            left_s = self._until - time.monotonic()
            if self._why or left_s <= 0:
                break
            try:
                line = socket.create_connection((str(address), port), min(left_s, CONNECT_MAX_S))
            except OSError as error:
                last = error
                continue
            line.settimeout(None)  # the timer ends it
            self._hold(line)
            if secure:
                context = ssl.create_default_context()
                line = context.wrap_socket(line, server_hostname=host, do_handshake_on_connect=False)
                self._hold(line)  # before the handshake, in which the other side may be silent
                line.do_handshake()
            return line
        raise last or PostError(f"no connection to {host}:{port}")

    def _hold(self, line: socket.socket) -> None:
        with self._lock:
            if self._why:
                line.close()
                raise PostError(self._why)
            self._socket = line


def reachable(host: str, port: int, secure: bool, allowed: Allowed) -> list[Address]:
    """Those addresses of a host that may be connected to.  Raises AddressRefused if there are others only."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise PostError(f"host {host!r} is not found: {_words(error)}") from error
    addresses = list(dict.fromkeys(ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found))
    inside = [a for a in addresses if allowed.named(host) or allowed.holds(a)]
    outside = [a for a in addresses if a not in inside and public(a)]
    if not inside and not outside:
        raise AddressRefused(
            f"host {host!r} leads to {addresses[0]}, which is not public; LONGTASK_ALLOW_PRIVATE lists what may be "
            "reached inside"
        )
    if not secure and not inside:
        raise AddressRefused(f"host {host!r} is public: send there by https, not by http")
    return inside if not secure else inside + outside


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
