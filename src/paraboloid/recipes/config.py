"""A config is a frozen dataclass: the same object is the command line's keys, the manifest and the run's name.

Values are plain: int, float, str, bool, None, Literal, tuples of these, and further dataclasses. Canonical JSON of a
config has one sha256, and that names its run.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import json
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass, replace
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from paraboloid.recipes.refused import Refused

C = TypeVar("C")


def as_json(config: Any) -> dict[str, Any]:
    """The config as JSON has it: nested dictionaries and lists.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Config:
    ...     lr: float = 0.1
    ...     seeds: tuple[int, ...] = (0, 1)
    >>> as_json(Config())
    {'lr': 0.1, 'seeds': [0, 1]}
    """
    return json.loads(json.dumps(asdict(config)))


def digest(config: Any) -> str:
    """sha256 of the config's canonical JSON: keys sorted, no spaces, and 2 as 2.0 where a float is declared."""
    canonical = from_json(type(config), as_json(config))
    text = json.dumps(asdict(canonical), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def from_json(kind: type[C], values: Mapping[str, Any], where: str = "") -> C:
    """The config of this kind with these values; keys that are left out keep their defaults."""
    if not isinstance(values, Mapping):
        raise Refused(f"{where or 'a config'} should be a table of keys and values, found {_shown(values)}.")
    hints = get_type_hints(kind)
    known = [field.name for field in fields(cast(Any, kind))]
    for key in values:
        if key not in known:
            raise Refused(f"there is no key {_path(where, key)!r}; {suggestion(key, known)}")
    return kind(**{key: _cast(hints[key], value, _path(where, key)) for key, value in values.items()})


def with_changes(config: C, changes: Iterable[str]) -> C:
    """The config with ``key=value`` texts applied; ``a.b=value`` reaches into a config within.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Config:
    ...     lr: float = 0.1
    >>> with_changes(Config(), ["lr=0.5"])
    Config(lr=0.5)
    """
    for change in changes:
        key, sign, text = change.partition("=")
        if not sign or not key:
            raise Refused(f"a change should look like key=value, found {change!r}.")
        config = _changed(config, key.split("."), text, key)
    return config


def suggestion(wrong: str, known: Sequence[str]) -> str:
    """The nearest of the known names, or all of them."""
    near = difflib.get_close_matches(wrong, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}."


def _changed(config: Any, keys: Sequence[str], text: str, path: str) -> Any:
    known = [field.name for field in fields(config)]
    if keys[0] not in known:
        raise Refused(f"there is no key {path!r}; {suggestion(keys[0], known)}")
    if len(keys) > 1:
        inner = getattr(config, keys[0])
        if not is_dataclass(inner):
            raise Refused(f"{keys[0]!r} holds a value, not further keys, so there is no {path!r}.")
        return replace(config, **{keys[0]: _changed(inner, keys[1:], text, path)})
    return replace(config, **{keys[0]: _typed(get_type_hints(type(config))[keys[0]], text, path)})


def _typed(hint: Any, text: str, path: str) -> Any:
    """What was typed, as the annotation wants it; where a text is wanted, letter by letter."""
    value = _read(text)
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return text if str in kinds and type(value) not in kinds else _cast(hint, value, path)


def _read(text: str) -> Any:
    """Numbers, true, null and lists as JSON or Python spells them; commas make a list; anything else is a text."""
    for reader in (json.loads, ast.literal_eval):
        try:
            return reader(text)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            continue
    inside = text.strip()
    if inside[:1] + inside[-1:] in ("()", "[]"):
        inside = inside[1:-1]
    if "," in inside and not set(inside) & set("()[]"):
        return [_read(part.strip()) for part in inside.split(",") if part.strip()]
    return text


def _cast(hint: Any, value: Any, path: str) -> Any:
    """`value` as the annotation wants it, or a refusal that names the key."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        return _first_fitting(arguments, value, path, hint)
    if origin is Literal:
        for argument in arguments:
            if argument == value and isinstance(argument, bool) == isinstance(value, bool):
                return argument
        raise Refused(f"{path} should be {_listed(arguments)}, found {_shown(value)}.")
    if origin is tuple:
        return _tuple(arguments, value, path, hint)
    if is_dataclass(hint):
        return from_json(cast(type, hint), value, path) if isinstance(value, Mapping) else _refuse(path, hint, value)
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return _float(value, path)
    if hint is types.NoneType and value is None:
        return None
    if hint is not types.NoneType and isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    if hint is str and isinstance(value, int | float) and not isinstance(value, bool):  # --set names=7,8
        return str(value)
    return _refuse(path, hint, value)


def _first_fitting(kinds: Sequence[Any], value: Any, path: str, hint: Any) -> Any:
    for kind in sorted(kinds, key=lambda kind: type(value) is not kind):  # its own kind first, so that it comes back
        try:
            return _cast(kind, value, path)
        except Refused:
            continue
    return _refuse(path, hint, value)


def _tuple(kinds: Sequence[Any], value: Any, path: str, hint: Any) -> tuple[Any, ...]:
    endless = len(kinds) == 2 and kinds[1] is Ellipsis
    items = value if isinstance(value, list | tuple) else [value]
    if not endless and len(items) != len(kinds):
        _refuse(path, hint, value)
    each = [kinds[0]] * len(items) if endless else kinds
    return tuple(_cast(kind, item, f"{path}[{i}]") for i, (kind, item) in enumerate(zip(each, items, strict=True)))


def _float(value: int | float, path: str) -> float:
    try:
        return float(value)
    except OverflowError:
        return _refuse(path, float, value)


def _refuse(path: str, hint: Any, value: Any) -> Any:
    raise Refused(f"{path} should be {_kind(hint)}, found {_shown(value)}.")


def _kind(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(_kind(kind) for kind in arguments)
    if origin is tuple and arguments[-1] is Ellipsis:
        return f"a list of {_kind(arguments[0]).removeprefix('a ')}s"
    if origin is tuple:
        return f"a list of {len(arguments)} values"
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false", types.NoneType: "none"}
    return names.get(hint, "a table of keys" if is_dataclass(hint) else str(hint))


def _listed(values: Sequence[Any]) -> str:
    return "one of " + ", ".join(str(value) for value in values)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _path(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key
