"""A server that asks for no token: who on this machine calls it may be a page from anywhere, in this user's browser.

Such a page can send requests to 127.0.0.1, and with a name that it makes point there (DNS rebinding) even read the
answers.  So what a browser says of a request is looked at, and nothing that a page can choose:

- `Host` must name this machine as people do: localhost, 127.0.0.1 or [::1] (any port: it may be forwarded), or a name
  from the settings.  A page cannot choose it; under rebinding it is the page's own name.
- `Origin`, when there is one, must be this server as `Host` names it.  `null` is a page without an origin: refused.
- `Sec-Fetch-Site`, when there is one, must be `same-origin` or `none` (typed, bookmarked), but for a plain visit by a
  link.  A page on another port of this machine is `same-site`: refused.
- A body of a type that a form may send without asking is refused: no client of ours sends one.
- Headers of a proxy are refused: who comes through it comes from somewhere else, and would be let in as this user.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from longtask.api.problems import Problem

NAMES = ("localhost", "127.0.0.1", "[::1]")
AUTHORITY = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?")
FORWARDING = (b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip", b"via")
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")
SAFE = ("GET", "HEAD")
PORTS = {"http": "80", "https": "443"}

Headers = Sequence[tuple[bytes, bytes]]


def values(headers: Headers, name: bytes) -> list[str]:
    return [value.decode("latin-1").strip() for key, value in headers if key == name]


def check(method: str, headers: Headers, hosts: Collection[str] = (), *, forms: bool = False) -> None:
    """`forms`: are taken, since they allow themselves by a signature.  Raises Problem 403, or 415."""
    host = _host(headers, hosts)
    if through := next((name for name in FORWARDING if values(headers, name)), None):
        raise _refused(
            f"the request comes through a proxy (header '{through.decode()}'), and this server asks nobody for a "
            "token; start it with --tokens"
        )
    for origin in values(headers, b"origin"):
        scheme, _, rest = origin.lower().partition("://")
        if scheme not in PORTS or _with_port(rest, scheme) != _with_port(host, scheme):
            raise _refused(f"a page of {origin[:100]!r} may not call this server; open the page of the server itself")
    visit = method in SAFE and values(headers, b"sec-fetch-mode") == ["navigate"]
    visit = visit and values(headers, b"sec-fetch-dest") == ["document"]
    for site in values(headers, b"sec-fetch-site"):
        if site not in ("same-origin", "none") and not visit:
            raise _refused(f"a page of another origin ({site[:20]!r}) may not call this server")
    if method not in SAFE and not forms:
        for kind in values(headers, b"content-type"):
            if kind.partition(";")[0].strip().lower() in FORMS:
                told = f"a body of type {kind[:60]!r}; send application/json"
                raise Problem(415, "media-type", "the media type is not taken", told)


def _host(headers: Headers, hosts: Collection[str]) -> str:
    found = values(headers, b"host")
    if len(found) != 1:
        raise _refused(f"the request names {len(found)} hosts; send one 'Host' header")
    host = found[0].lower()
    match = AUTHORITY.fullmatch(host)
    if match is None or match["name"] not in (*NAMES, *(name.lower() for name in hosts)):
        raise _refused(f"this server is not {found[0][:100]!r}; call it as localhost or 127.0.0.1")
    return host


def _with_port(authority: str, scheme: str) -> str:
    match = AUTHORITY.fullmatch(authority)
    return f"{match['name']}:{match['port'] or PORTS[scheme]}" if match else f"?{authority}"


def _refused(detail: str) -> Problem:
    return Problem(403, "foreign", "not from this machine", detail)
