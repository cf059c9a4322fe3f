"""Keyword arguments as the words of the command line, which knows what they may be."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Union

# One value of an option. Numbers of numpy are numbers too.
Value = Union[str, int, float, "os.PathLike[str]"]
# A path or a name.
Name = Union[str, "os.PathLike[str]"]


def value(given: object) -> str:
    """One value, as the command line has it."""
    if isinstance(given, bool):
        return "true" if given else "false"
    return os.fspath(given) if isinstance(given, os.PathLike) else str(given)


def listed(given: Value | Iterable[Value] | None) -> str | None:
    """One value or several, separated by commas."""
    if given is None or isinstance(given, (str, os.PathLike)) or not isinstance(given, Iterable):
        return None if given is None else value(given)
    return ",".join(value(one) for one in given)


def table(options: Mapping[str, object], sets: Mapping[str, object] | None) -> str:
    """The options as the file of a sweep has them (TOML): a list is a list, and None is left out."""

    def line(name: str, given: object) -> str:
        several = isinstance(given, Iterable) and not isinstance(given, (str, os.PathLike))
        values = [json.dumps(value(one), ensure_ascii=False) for one in (given if several else [given])]  # type: ignore[attr-defined]
        return f"{json.dumps(name)} = [{', '.join(values)}]" if several else f"{json.dumps(name)} = {values[0]}"

    lines = [line(name.replace("_", "-"), given) for name, given in options.items() if given is not None]
    lines += ["[set]", *(line(key, given) for key, given in sets.items())] if sets else []
    return "\n".join(lines) + "\n"


def words(
    first: Name | None,
    options: Mapping[str, object],
    sets: Mapping[str, object] | None = None,
) -> list[str]:
    """The words: options that are None or False are left out, True is an option without a value."""
    made = []
    for name, given in options.items():
        option = "--" + name.replace("_", "-")
        if given is True:
            made.append(option)
        elif given is not None and given is not False:
            made.append(f"{option}={value(given)}")
    made += [f"--set={key}={value(given)}" for key, given in (sets or {}).items()]
    if first is not None:
        # Whatever it begins with, it is no option.
        made += ["--", value(first)]
    return made
