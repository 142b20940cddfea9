"""Names of commands and addresses in messages and reports, without values that may be secrets.

Passwords and keys have no form that can be recognised, so these functions list what is shown and hide everything else.
"""

from __future__ import annotations

import re
import shlex
import urllib.parse
from collections.abc import Sequence
from pathlib import Path

HIDDEN = "…"
SHORTEST = 4  # letters of a value that is looked for in other texts
PLAIN_HOST = re.compile(r"([\w.-]+|\[[0-9a-fA-F:.]+\])(:\d{1,5})?")
PLAIN_PART = re.compile(r"[a-z][a-z_-]{0,15}(\.[a-z]{1,5})?|v\d{1,2}|")  # of a path: words, versions
PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z_-]{0,19}")  # of a query parameter


def command_shown(words: Sequence[str]) -> str:
    """The name of the program and of the files among its arguments; other arguments are hidden.

    >>> command_shown(["/usr/bin/python3", "-c", "print(1)", "--api-key", "k3y"])
    'python3 …'
    """
    found: list[str] = []
    for i, word in enumerate(words):
        shown = Path(word).name or word if i == 0 or _is_file(word) else HIDDEN
        if shown != HIDDEN or found[-1:] != [HIDDEN]:
            found.append(shown)
    return " ".join(found)


def url_shown(url: str) -> str:
    """An address without user name, password, values of query parameters, fragment, and path segments that may be keys.

    >>> url_shown("https://ann:pw@scores.example:8443/v1/decide/9f8Ab2?api_key=k3y&k3y#k3y")
    'https://scores.example:8443/v1/decide/…?api_key=…&…'
    """
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:
        return HIDDEN
    path = "/".join(part if PLAIN_PART.fullmatch(part) else HIDDEN for part in parts.path.split("/"))
    query = "&".join(_parameter(one) for one in parts.query.split("&")) if parts.query else ""
    place = parts.netloc.rpartition("@")[2]
    host = place if PLAIN_HOST.fullmatch(place) else HIDDEN
    return urllib.parse.urlunsplit((parts.scheme, host, path, query, ""))


def masked(text: str, values: Sequence[str]) -> str:
    """A text of somebody else without these values, nor what they are composed of.

    >>> masked("unknown argument --key=k3yk3y: k3yk3y", ["--key=k3yk3y", "-v"])
    'unknown argument …: …'
    """
    parts = {part for value in values if not _is_file(value) for part in (value, *re.split(r"[=\s:]", value))}
    for part in sorted(parts, key=len, reverse=True):
        if len(part) >= SHORTEST and not re.fullmatch(r"--?[a-z-]+", part):
            text = text.replace(part, HIDDEN)
    return text


def secrets_of_url(url: str) -> list[str]:
    """The parts of an address that `url_shown` hides, as written and decoded."""
    parts = urllib.parse.urlsplit(url)
    found = [part for part in parts.path.split("/") if not PLAIN_PART.fullmatch(part)]
    found += [part for one in parts.query.split("&") for part in (one, one.partition("=")[2])]
    found.append(parts.fragment)
    return [*found, *map(urllib.parse.unquote, found)]


def typed(words: Sequence[str]) -> str:
    """A command line of bornfair, to be typed again, without the values that may be secrets.

    >>> typed(["bornfair", "audit", "--model-command", "scorer --key k3y", "--endpoint=https://a.example/?key=k3y"])
    "bornfair audit --model-command 'scorer …' '--endpoint=https://a.example/?key=…'"
    """
    found: list[str] = []
    for word in words:
        option, equals, value = word.partition("=")
        if found and found[-1] in ("--model-command", "--endpoint"):
            word = _value(found[-1], word)
        elif equals and option in ("--model-command", "--endpoint"):
            word = f"{option}={_value(option, value)}"
        elif "://" in word:
            option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
            word = f"{option}{equals}{url_shown(value)}"
        found.append(word)
    return shlex.join(found)


def _value(option: str, value: str) -> str:
    if option == "--endpoint":
        return url_shown(value)
    try:
        return command_shown(shlex.split(value))
    except ValueError:
        return HIDDEN


def _parameter(text: str) -> str:
    name, equals, _ = text.partition("=")
    return f"{name if PLAIN_NAME.fullmatch(name) else HIDDEN}={HIDDEN}" if equals else HIDDEN


def _is_file(word: str) -> bool:
    try:
        return Path(word).is_file()
    except (OSError, ValueError):
        return False
