"""A model by its name, `provider:model`, looked at before anything is asked: what is missing is said at once.

    openai:…        OpenAI's Responses API           openai-chat:…   Chat Completions, which others speak, too
    anthropic:…     Anthropic's Messages API         and whatever else the installed Pydantic AI has a provider for

The keys and addresses are the usual variables: `OPENAI_API_KEY`, `OPENAI_BASE_URL`, `ANTHROPIC_API_KEY` …
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, cast

from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model, infer_model
from pydantic_ai.settings import ModelSettings

from longtask.agents.provider import missing_key
from longtask.core.errors import BadPlan

EXAMPLES = "'anthropic:claude-…', 'openai:gpt-…', or 'openai-chat:…' for what speaks Chat Completions"
# Anthropic refuses a request without it, and what the library takes by itself is too little to write a file with.
DEFAULTS: Mapping[str, Any] = {"cache": True, "max_retries": 0}
_KEY = re.compile(r"\b([A-Z][A-Z0-9_]*_(?:KEY|TOKEN))\b")
OUTPUT_TOKENS = {"anthropic": 16_384}


def model_of(name: str | None) -> Model:
    """Raises BadPlan: no name, none that is known, a key or a library that is missing."""
    if not name:
        raise BadPlan(f"agent runtime 'builtin': which model? say `model:`, such as {EXAMPLES}")
    try:
        return infer_model(name)
    except (UserError, ValueError) as error:
        if (key := _KEY.search(str(error))) is not None and key[1] not in os.environ:
            raise missing_key(name, key[1]) from error
        raise BadPlan(f"model '{name}': {_first_line(error)}; a model is named such as {EXAMPLES}") from error
    except ImportError as error:
        raise BadPlan(f"model '{name}': {_first_line(error)}") from error


def settings_of(model: Model, given: Mapping[str, Any]) -> ModelSettings:
    """What the plan says in `options.settings` goes before what is sensible for a coding agent."""
    settings = dict(DEFAULTS)
    if model.system in OUTPUT_TOKENS:
        settings["max_tokens"] = OUTPUT_TOKENS[model.system]
    return cast(ModelSettings, settings | dict(given))


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")
