"""What a turn of a model has cost, by the price list that is installed, if one is."""

from __future__ import annotations

MICROS = 1_000_000


def micros(model: str, tokens_in: int, tokens_out: int, cache_read: int = 0, cache_write: int = 0) -> int | None:
    """In millionths of a dollar.  `tokens_in` holds those of a cache.  None: no price is known."""
    try:
        from genai_prices import Usage, calc_price  # late: it comes with the extras of agents alone
    except ImportError:
        return None
    usage = Usage(
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        cache_read_tokens=cache_read or None,
        cache_write_tokens=cache_write or None,
    )
    try:
        return round(calc_price(usage, model).total_price * MICROS)
    except (LookupError, ValueError):
        return None
