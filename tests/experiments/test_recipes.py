"""Every recipe of the package: whole, repeatable, and shown by valid figures."""

import json
import math
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path

import pytest
import torch

from paraboloid.recipes import runs
from paraboloid.recipes.cells import tasks_of
from paraboloid.recipes.circumstances import Circumstances
from paraboloid.recipes.config import as_json, digest, from_json
from paraboloid.recipes.discovery import find, load
from paraboloid.recipes.events import nobody
from paraboloid.recipes.figures import Bars, Panel, Surface
from paraboloid.recipes.log import MemoryLog
from paraboloid.recipes.protocol import SCALE_NAMES, by_seed
from paraboloid.recipes.runlog import RunLog
from paraboloid.recipes.runs import Plan
from paraboloid.recipes.stopping import Stop
from paraboloid.recipes.summary import verdict
from paraboloid.recipes.workers import Pool

FOUND = find("paraboloid.experiments")
each = pytest.mark.parametrize("name", FOUND)


def plan(name: str, out: Path, **how) -> Plan:
    """Its smoke scale, with as few seeds as have an error."""
    recipe = load(FOUND[name])
    config = recipe.scales["smoke"]
    config = replace(config, seeds=config.seeds[:2])
    return Plan(recipe, "smoke", config, out, Circumstances(recipe=FOUND[name], **how))


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The results of each, computed once for this file, by the frame and in single precision as users have it."""
    kept = {}

    def once(name):
        if name not in kept:
            before = torch.get_default_dtype()
            torch.set_default_dtype(torch.float32)
            kept[name] = runs.carry_out(plan(name, tmp_path_factory.mktemp(name)))
            torch.set_default_dtype(before)
        return kept[name]

    return once


@each
@pytest.mark.usefixtures("single_precision")
def test_the_same_seeds_give_identical_values_in_memory_whatever_was_drawn_before(found, name):
    torch.rand(3)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    torch.set_num_threads(1)
    one = plan(name, Path("nowhere"))
    again = one.recipe.run(one.config, MemoryLog())
    torch.set_num_threads(threads)
    record = found(name)
    assert {key: list(map(float, values)) for key, values in again.values.items()} == record.values
    assert json.loads(json.dumps(again.tables)) == record.tables
    assert torch.equal(torch.get_rng_state(), before)  # no recipe touches the global generator


@each
def test_values_are_finite_and_repeated_and_every_claim_is_about_one_of_them(found, name):
    record = found(name)
    for key, values in record.values.items():
        assert len(values) == 2, key
        assert all(map(math.isfinite, values)), key
    recipe = load(FOUND[name])
    for target in recipe.targets:
        assert target.value in record.values
        assert target.low <= target.high
        assert target.statement
        assert target.published
        assert verdict(record.summary(target.value), target) in ("confirmed", "not confirmed", "undecided")
    assert len({(target.value, target.statement) for target in recipe.targets}) == len(recipe.targets)


def numbers_of(panel):
    if isinstance(panel, Panel):
        assert panel.series
        assert len({series.name for series in panel.series}) == len(panel.series)
        for series in panel.series:
            lengths = {len(n) for n in (series.x, series.y, series.low, series.high) if n is not None}
            assert len(lengths) == 1
            yield panel.x, series.x
            for column in (series.y, series.low, series.high):
                yield panel.y, column or []
        yield panel.y, [height for _, height in panel.levels]
    elif isinstance(panel, Bars):
        for table in (panel.values, panel.errors or {}):
            assert all(len(column) == len(panel.labels) for column in table.values())
        yield from ((panel.y, column) for column in panel.values.values())
        yield from ((replace(panel.y, scale="linear"), column) for column in (panel.errors or {}).values())
    else:
        assert isinstance(panel, Surface)
        assert len(panel.z) == len(panel.ys)
        assert all(len(row) == len(panel.xs) for row in panel.z)
        yield panel.x, panel.xs
        yield panel.y, panel.ys
        yield from ((replace(panel.x, scale=panel.scale), row) for row in panel.z)


@each
def test_figures_hold_finite_numbers_of_equal_lengths_under_unique_names(found, name):
    record, recipe = found(name), load(FOUND[name])
    figures = recipe.figures(runs.Results(record.values, record.tables))
    assert figures
    assert len({figure.name for figure in figures}) == len(figures)
    for figure in figures:
        assert figure.panels
        assert figure.title
        assert figure.caption
        for panel in figure.panels:
            for axis, numbers in numbers_of(panel):
                assert all(math.isfinite(number) for number in numbers)
                assert axis.scale == "linear" or all(number > 0 for number in numbers)


@each
def test_card_and_scales_are_whole(name):
    recipe = load(FOUND[name])
    assert set(recipe.card.cost) == set(recipe.scales) == set(SCALE_NAMES)
    for text in (*recipe.card.cost.values(), recipe.card.title, recipe.card.source, recipe.card.claim):
        assert text.strip()
    assert recipe.scales["paper"] == recipe.config()
    assert len(recipe.scales["smoke"].seeds) >= 2
    assert len(recipe.scales["laptop"].seeds) >= 3
    for config in recipe.scales.values():
        back = from_json(recipe.config, json.loads(json.dumps(as_json(config))))
        assert back == config
        assert digest(back) == digest(config)
        assert len(set(config.seeds)) == len(config.seeds)
        assert asdict(back) == asdict(config)


@pytest.mark.usefixtures("single_precision")
def test_two_jobs_give_the_values_of_one(found, tmp_path, monkeypatch):
    """The cells of all recipes through one pair of spawned workers; each run then finds its cells finished."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    plans = {name: plan(name, tmp_path) for name in FOUND}
    tasks = []
    for name, one in plans.items():
        one.folder.mkdir(parents=True)
        tasks += tasks_of(import_module(FOUND[name]).one_seed, by_seed(one.config), one.folder)
    count = len(tasks)
    Pool(tasks, replace(plans["linear_lemma"].circumstances, jobs=2), RunLog, nobody, Stop()).run()
    for name, one in plans.items():
        told = []
        beside, alone = runs.carry_out(one, told.append), found(name)
        assert [(event.kind, event.done) for event in told] == [("cells", 2)]  # nothing was left to do
        assert beside.values == alone.values, name
        assert beside.tables == alone.tables, name
        assert beside.provenance.data == alone.provenance.data
    assert count == 2 * len(FOUND)
