"""Configs: what is typed, what is in a file and what names a run are the same thing, and mistakes are named."""

import hashlib
import json
import math
from dataclasses import dataclass, field, make_dataclass, replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paraboloid.recipes.config import as_json, digest, from_json, suggestion, with_changes
from paraboloid.recipes.refused import Refused


@dataclass(frozen=True)
class Inner:
    widths: tuple[int, ...] = (4, 2)
    pair: tuple[float, str] = (0.5, "a")


@dataclass(frozen=True)
class Config:
    count: int = 3
    rate: float = 0.1
    name: str = "plain"
    fast: bool = False
    limit: float | None = None
    kind: Literal["adam", "sgd"] = "adam"
    level: Literal[1, 2] = 1
    grid: tuple[tuple[int, ...], ...] = ((1, 2), (3,))
    names: tuple[str, ...] = ()
    label: str | int = 7
    inner: Inner = field(default_factory=Inner)
    seeds: tuple[int, ...] = (0, 1)


CHANGES = {
    "count": 4,
    "rate": 0.2,
    "name": "other",
    "fast": True,
    "limit": 1.5,
    "kind": "sgd",
    "level": 2,
    "grid": ((1, 2), (4,)),
    "names": ("a",),
    "label": "7",
    "inner": Inner(widths=(4, 3)),
    "seeds": (0, 2),
}


def through_json(config):
    return from_json(type(config), json.loads(json.dumps(as_json(config))))


@pytest.mark.parametrize("key", ["", *CHANGES])
def test_a_config_comes_back_from_json_with_the_same_digest(key):
    config = replace(Config(), **{key: CHANGES[key]}) if key else Config()
    back = through_json(config)
    assert back == config
    assert digest(back) == digest(config)
    assert [type(getattr(back, name)) for name in CHANGES] == [type(getattr(config, name)) for name in CHANGES]


floats = st.floats(allow_nan=False)
numbers = st.tuples(st.integers(), floats, st.text(), st.booleans(), st.none() | floats, st.lists(st.integers()))


@given(numbers)
def test_any_values_come_back_from_json(drawn):
    count, rate, name, fast, limit, widths = drawn
    config = Config(count, rate, name, fast, limit, inner=Inner(tuple(widths)))
    assert through_json(config) == config
    assert digest(through_json(config)) == digest(config)


def test_every_key_changes_the_digest():
    digests = {digest(Config()), *(digest(replace(Config(), **{key: value})) for key, value in CHANGES.items())}
    assert len(digests) == 1 + len(CHANGES)


def test_the_order_in_which_a_class_declares_its_keys_does_not_change_the_digest():
    one = make_dataclass("One", [("a", int, 1), ("b", int, 2)], frozen=True)
    other = make_dataclass("Other", [("b", int, 2), ("a", int, 1)], frozen=True)
    assert digest(one()) == digest(other())
    assert digest(one()) == hashlib.sha256(b'{"a":1,"b":2}').hexdigest()


def test_the_order_of_keys_in_a_file_and_the_spelling_of_a_number_do_not_change_the_digest():
    plain = as_json(Config(rate=2.0))
    for values in (plain, dict(reversed(plain.items())), plain | {"rate": 2}, {"rate": 2}):
        assert digest(from_json(Config, values)) == digest(Config(rate=2.0))
    assert digest(Config(rate=2)) == digest(Config(rate=2.0))


def test_keys_that_are_left_out_keep_their_defaults():
    assert from_json(Config, {"inner": {"widths": [1]}}) == Config(inner=Inner((1,)))


@pytest.mark.parametrize(
    ("change", "key", "value"),
    [
        ("count=7", "count", 7),
        ("count=-7", "count", -7),
        ("rate=1e-3", "rate", 0.001),
        ("rate=3", "rate", 3.0),
        ("rate=Infinity", "rate", math.inf),
        ("name=word", "name", "word"),
        ("name=a=b", "name", "a=b"),
        ("name=7", "name", "7"),
        ("name=007", "name", "007"),
        ("name=1.50", "name", "1.50"),
        ("name=true", "name", "true"),
        ("name=a,b", "name", "a,b"),
        ("name=", "name", ""),
        ("fast=true", "fast", True),
        ("fast=False", "fast", False),
        ("limit=2", "limit", 2.0),
        ("limit=None", "limit", None),
        ("limit=null", "limit", None),
        ("kind=sgd", "kind", "sgd"),
        ("level=2", "level", 2),
        ("level=2.0", "level", 2),
        ("seeds=3", "seeds", (3,)),
        ("seeds=3,4", "seeds", (3, 4)),
        ("seeds=[3,4]", "seeds", (3, 4)),
        ("seeds=(3,)", "seeds", (3,)),
        ("seeds=()", "seeds", ()),
        ("names=a,b", "names", ("a", "b")),
        ("names=(a, b)", "names", ("a", "b")),
        ("grid=[[1],[2,3]]", "grid", ((1,), (2, 3))),
        ("grid=((1,),(2,3))", "grid", ((1,), (2, 3))),
        ("inner.widths=9", "inner", Inner((9,))),
        ("inner.pair=1,b", "inner", Inner(pair=(1.0, "b"))),
        ('inner={"widths": [5]}', "inner", Inner((5,))),
    ],
)
def test_a_typed_change_is_read_as_its_key_wants_it(change, key, value):
    changed = with_changes(Config(), [change])
    assert changed == replace(Config(), **{key: value})
    assert type(getattr(changed, key)) is type(value)


def test_later_changes_win_and_the_config_itself_stays():
    config = Config()
    assert with_changes(config, ["count=1", "count=2", "inner.widths=1"]) == Config(count=2, inner=Inner((1,)))
    assert config == Config()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("cuont=1", "there is no key 'cuont'; did you mean count?"),
        ("zzzzzz=1", "there is no key 'zzzzzz'; known: count, rate, name"),
        ("inner.width=1", "there is no key 'inner.width'; did you mean widths?"),
        ("count.x=1", "'count' holds a value, not further keys, so there is no 'count.x'"),
        ("count", "a change should look like key=value, found 'count'"),
        ("=3", "a change should look like key=value, found '=3'"),
        ("count=1.5", "count should be a whole number, found 1.5"),
        ("count=true", "count should be a whole number, found True"),
        ("count=x", "count should be a whole number, found 'x'"),
        ("rate=fast", "rate should be a number, found 'fast'"),
        ("rate=True", "rate should be a number, found True"),
        ("rate=1" + "0" * 400, "rate should be a number, found 1000"),
        ("fast=1", "fast should be true or false, found 1"),
        ("limit=x", "limit should be a number or none, found 'x'"),
        ("kind=adma", "kind should be one of adam, sgd, found 'adma'"),
        ("level=3", "level should be one of 1, 2, found 3"),
        ("level=true", "level should be one of 1, 2, found True"),
        ("level=1.5", "level should be one of 1, 2, found 1.5"),
        ("seeds=1,x", r"seeds[1] should be a whole number, found 'x'"),
        ("seeds=[1,2", "seeds"),
        ("inner=3", "inner should be a table of keys, found 3"),
        ("inner.pair=1,b,c", "inner.pair should be a list of 2 values, found [1, 'b', 'c']"),
        ('inner={"widht": 1}', "there is no key 'inner.widht'; did you mean widths?"),
    ],
)
def test_a_change_that_cannot_be_is_refused_by_name(change, message):
    with pytest.raises(Refused) as refusal:
        with_changes(Config(), [change])
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1], "a config should be a table of keys and values, found [1]"),
        ({"countt": 1}, "there is no key 'countt'; did you mean count?"),
        ({"count": True}, "count should be a whole number, found True"),
        ({"count": None}, "count should be a whole number, found None"),
        ({"inner": [1]}, "inner should be a table of keys, found [1]"),
        ({"inner": {"widths": ["a"]}}, "inner.widths[0] should be a whole number, found 'a'"),
        ({"names": [True]}, "names[0] should be a text, found True"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_by_name(values, message):
    with pytest.raises(Refused) as refusal:
        from_json(Config, values)
    assert message in str(refusal.value)


def test_the_nearest_name_is_suggested_and_all_of_them_where_none_is_near():
    assert suggestion("adma", ["sgd", "adam"]) == "did you mean adam?"
    assert suggestion("qqq", ["sgd", "adam"]) == "known: sgd, adam."
