"""The options of the planner `openai`: what is wrong with them, and where the key comes from."""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Mapping
from typing import Literal, get_args

from brace.errors import ConfigError

GrammarKind = Literal["none", "gbnf", "json_schema"]
DEFAULT_KEY_ENV = "OPENAI_API_KEY"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def check_options(
    model: object, max_tokens: object, temperature: object, grammar: object, chat: object, extra: object
) -> None:
    """Options come from YAML: refuse what is of the wrong kind, with the remedy."""
    if not isinstance(model, str) or not model:
        raise _wrong("model", model, "give the name by which the server knows it")
    if not isinstance(extra, Mapping | None):
        raise _wrong("extra", extra, "must be a mapping: fields of the request and their values")
    whole = (extra or {}).get("max_completion_tokens", max_tokens)
    if not isinstance(whole, int) or isinstance(whole, bool) or whole < 1:
        raise _wrong("max_tokens", whole, "must be a whole number, 1 or more")
    if temperature is not None and (not isinstance(temperature, int | float) or temperature < 0):
        raise _wrong("temperature", temperature, "must be 0 or more, or null for the server's own")
    if grammar not in get_args(GrammarKind):
        raise _wrong("grammar", grammar, f"must be one of {', '.join(get_args(GrammarKind))}")
    if not isinstance(chat, bool):
        raise _wrong("chat", chat, "must be true or false")
    if grammar == "json_schema" and not chat:
        raise _wrong("grammar", grammar, "only chats have a response_format; use chat: true, or gbnf")


def checked_url(base_url: object) -> str:
    """The URL without a slash at its end."""
    parts = urllib.parse.urlsplit(base_url) if isinstance(base_url, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise _wrong("base_url", base_url, "give it as http(s)://host:port/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        # Not shown: it may hold a secret.
        raise ConfigError(
            "planner 'openai': base_url has a user, a password or a query; a key belongs into an environment "
            "variable, which key_env names"
        )
    return parts.geturl().rstrip("/")


def find_key(key_env: str | None, base_url: str) -> str:
    """The key, or nothing. One that nobody named is not sent in the clear to another machine."""
    variable = key_env or DEFAULT_KEY_ENV
    key = os.environ.get(variable, "").strip()
    if key_env is not None and not key:
        raise _wrong("key_env", key_env, "that environment variable is not set; set it, or leave key_env out")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(
            f"planner 'openai': the environment variable {variable} holds no valid key: no key has spaces, "
            "line breaks or letters beyond ASCII"
        )
    parts = urllib.parse.urlsplit(base_url)
    is_private = parts.scheme == "https" or parts.hostname in _LOOPBACK
    return key if key_env is not None or is_private else ""


def _wrong(option: str, value: object, remedy: str) -> ConfigError:
    return ConfigError(f"planner 'openai': {option} = {value!r}: {remedy}")
