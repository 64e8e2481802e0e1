"""The page of a link: plain HTML, without scripts, that works in any browser and any mail program."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from longtask.core.model import Task
from longtask.store.outward import Link
from longtask.views.words import handle, iso

HEADERS = {
    # with `no-referrer` a browser would send the form from nowhere (`Origin: null`)
    "Referrer-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
    "frame-ancestors 'none'",
    "X-Robots-Tag": "noindex, nofollow",
}
STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:44em;margin:3em auto;padding:0 1em}"
    "pre{white-space:pre-wrap;background:#8881;padding:.8em;overflow-wrap:anywhere}"
    "textarea{width:100%;height:5em}button{font:inherit;padding:.4em 1.2em;margin-right:.6em}"
    ".told{border-left:4px solid #c60;padding-left:.8em}"
)
WORDS = {
    "approve": "Approve",
    "reject": "Reject",
    "again": "Try again",
    "accept": "Accept it as it is",
    "give_up": "Give up",
    "raise": "Raise the limit",
    "raise_stage": "Raise it for the whole stage",
}
SHOWN_MAX = 20_000


def question(asked: Mapping[str, Any], answers: Sequence[str], link: Link, told: str | None = None) -> str:
    """`asked`: the approval as the API shows it.  `told`: what was wrong with an answer."""
    shown = {k: v for k, v in asked["question"].items() if k in ("show", "reason", "head") and v}
    text = str(asked["question"].get("text") or asked["text"])
    buttons = "".join(
        f'<button name="answer" value="{escape(word)}">{escape(WORDS.get(word, word))}</button>' for word in answers
    )
    return _page(
        f"{asked['handle']}: {asked['step']}",
        (f'<p class="told">{escape(told)}</p>' if told else "")
        + f"<pre>{escape(text[:SHOWN_MAX])}</pre>"
        + (f"<pre>{escape(json.dumps(shown, indent=2, ensure_ascii=False)[:SHOWN_MAX])}</pre>" if shown else "")
        + f'<form method="post"><p><label>A word for the record (a rejection takes one)<br>'
        f'<textarea name="text" maxlength="20000"></textarea></label></p><p>{buttons}</p></form>'
        f"<p>You decide as {escape(link.who)}. The link answers once, and is good until "
        f"{escape(iso(link.expires_at))}.</p>",
    )


def over(task: Task, link: Link, told: str) -> str:
    return _page(f"{handle(task)}: {link.step}", f'<p class="told">{escape(told)}</p>')


def _page(title: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><h1>{escape(title)}</h1>{body}</body></html>"
    )
