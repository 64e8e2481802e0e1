"""Tokens that say what they are for and cannot be made by anybody else: JSON with its HMAC.

    token = seal(key, "callback", [task_id, step, run])
    unseal(key, "callback", token)          -> [task_id, step, run], or None for anything that was not sealed so

A purpose is part of what is signed, so that a token of one kind is never taken for another.  They are not encrypted.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json

from .model import Json

TOKEN_LENGTH_MAX = 2_000  # an address stays one that every program takes


def seal(key: bytes, purpose: str, content: Json) -> str:
    text = _text(json.dumps(content, separators=(",", ":")).encode())
    return f"{text}.{_text(_mark(key, purpose, text))}"


def unseal(key: bytes, purpose: str, token: str) -> Json | None:
    if len(token) > TOKEN_LENGTH_MAX or not token.isascii():
        return None
    text, dot, mark = token.partition(".")
    if not dot or not hmac.compare_digest(mark, _text(_mark(key, purpose, text))):
        return None
    try:
        return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, binascii.Error):  # whoever has the key sealed nonsense
        return None


def _mark(key: bytes, purpose: str, text: str) -> bytes:
    return hmac.new(key, f"{purpose}.{text}".encode(), hashlib.sha256).digest()


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
