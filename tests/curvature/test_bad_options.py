"""Options that do not exist, do not go together or are out of range: an error with the nearest name and the way out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from curvature.situations import EXACT, STRUCTURES, X, Y, answer, each, mlp, used
from paraboloid import curvature


def refused(device: torch.device, message: str, error: type[Exception] = ValueError, **asked: Any) -> None:
    """The options are refused before any batch is looked at."""

    def batches():
        raise AssertionError("the data were looked at")
        yield

    likelihood = asked.pop("likelihood", "categorical")
    for data in ((X, Y), batches()):
        with pytest.raises(error, match=message):
            curvature(mlp(device), data, likelihood=likelihood, **asked)


# ---------------------------------------------------------------------- names
MISSPELT = {
    "structure": {
        "kronecke": "kronecker", "Dense": "dense", "KFAC": "kronecker", "ekfac": "eigenkronecker", "diag": "diagonal",
        "full": "dense", "low-rank": "lowrank", "blocks": "block", "product": "products",
    },
    "estimate": {"exat": "exact", "mc": "sampled", "emprical": "empirical", "PROJECTED": "projected"},
    "kind": {"hesian": "hessian", "GGN": "ggn", "fisher": "ggn", "gauss-newton": "ggn"},
    "sharing": {"expnd": "expand", "reduced": "reduce"},
    "bias": {"join": "joint", "seperate": "separate"},
}  # fmt: skip
NAMES = [(option, found, near) for option, table in MISSPELT.items() for found, near in table.items()]


@pytest.mark.parametrize(("option", "found", "near"), NAMES)
def test_a_name_that_is_unknown_is_refused_with_the_nearest_one(option, found, near, device):
    message = rf"{option}='{found}' is unknown; it should be one of .*'{near}'.* Did you mean '{near}'\?"
    refused(device, message, **{option: found})


@pytest.mark.parametrize("found", [None, 3, True, ["dense"]], ids=str)
@pytest.mark.parametrize("option", ["structure", "kind", "sharing", "bias"])
def test_what_is_no_name_is_refused(option, found, device):
    refused(device, f"{option}=.* is unknown; it should be one of '", **{option: found})


LIKELIHOODS = {
    "categoric": "categorical", "cross_entropy": "categorical", "softmax": "categorical", "Gausian": "gaussian",
    "regression": "gaussian", "binary": "bernoulli", "MSELoss": "mse", "poison": "poisson", "hetero": "heteroscedastic",
}  # fmt: skip


@pytest.mark.parametrize("found", LIKELIHOODS)
def test_a_likelihood_that_is_unknown_is_refused_with_the_nearest_one(found, device):
    message = f'no likelihood is called {found!r}. Did you mean "{LIKELIHOODS[found]}"\\? There are: "categorical", '
    refused(device, message, likelihood=found)


NO_LIKELIHOOD = {
    "cross_entropy": (nn.CrossEntropyLoss(), 'found CrossEntropyLoss. For CrossEntropyLoss that is "categorical"'),
    "mse": (nn.MSELoss(), 'found MSELoss. For MSELoss that is "mse"'),
    "nothing": (None, 'one of "categorical", .*found NoneType'),
    "function": (nn.functional.cross_entropy, "or a Likelihood such as .*found function"),
}


@pytest.mark.parametrize("what", NO_LIKELIHOOD)
def test_what_is_no_likelihood_is_refused(what, device):
    found, message = NO_LIKELIHOOD[what]
    refused(device, message, TypeError, likelihood=found)


# ---------------------------------------------------------------------- combinations
NO_HESSIAN = ("kronecker", "eigenkronecker", "lowrank")


@pytest.mark.parametrize("structure", NO_HESSIAN)
def test_a_hessian_has_no_factors_and_no_roots(structure, device):
    message = rf"kind='hessian' has no '{structure}' structure.*Use one of products, dense, block, diagonal, or kind='g"
    refused(device, message, kind="hessian", structure=structure)


@pytest.mark.parametrize("estimate", ["sampled", "empirical", "projected", "projected_gaussian", "signed"])
@pytest.mark.parametrize("structure", ["products", "dense", "block", "diagonal"])
def test_a_hessian_is_exact(structure, estimate, device):
    message = rf"kind='hessian' is exact; estimate='{estimate}' belongs to kind='ggn'. Leave estimate out, or use kind="
    refused(device, message, kind="hessian", structure=structure, estimate=estimate)


@pytest.mark.parametrize("structure", [s for s in STRUCTURES if "kronecker" not in s])
def test_sharing_is_a_choice_of_factors_alone(structure, device):
    message = rf"sharing='reduce' is a choice of Kronecker factors; structure='{structure}' is exact.*Leave sharing out"
    refused(device, message, sharing="reduce", structure=structure)


@pytest.mark.parametrize("structure", [s for s in STRUCTURES if s != "lowrank"])
def test_a_rank_belongs_to_lowrank(structure, device):
    message = rf"rank= belongs to structure='lowrank', found structure='{structure}'. Leave rank out, or use struct"
    refused(device, message, rank=3, structure=structure)


@pytest.mark.parametrize("estimate", [None, "exact", "empirical", "signed"])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_samples_need_a_random_estimate(structure, estimate, device):
    message = rf"samples=4 needs a random estimate \('sampled', .*found estimate={estimate!r}. Leave samples out"
    refused(device, message, structure=structure, estimate=estimate, samples=4)


# ---------------------------------------------------------------------- ranges
LEAST_ONE = r"{}= should be a whole number of at least 1, found {!r}"
RANGES = [
    *[({"samples": v, "estimate": "sampled"}, LEAST_ONE.format("samples", v)) for v in (0, -1, 2.0, "3", True)],
    *[({"rank": v, "structure": "lowrank"}, LEAST_ONE.format("rank", v)) for v in (0, -2, 1.5)],
    *[({"memory": v}, LEAST_ONE.format("memory", v)) for v in (0, -1, 0.5)],
    *[({"max_block": v}, f"max_block= should be a whole number of at least 0, found {v!r}") for v in (-1, 2.5)],
    *[({"num_data": v}, f"num_data= should be a positive number of terms, found {v!r}") for v in (0, -5, "7")],
    *[({"num_data": float(v)}, f"num_data= should be a positive number of terms, found {v}") for v in ("nan", "inf")],
]


@pytest.mark.parametrize(("asked", "message"), RANGES, ids=lambda part: str(part) if isinstance(part, dict) else "")
def test_a_number_out_of_range_is_refused(asked, message, device):
    refused(device, message, **asked)


# ---------------------------------------------------------------------- generators
class Elsewhere(torch.Generator):
    """Says that it is on a device where the model is not."""

    device = torch.device("cuda", 7)


@pytest.mark.parametrize("found", [0, "seed", torch.rand], ids=["int", "str", "function"])
def test_what_is_no_generator_is_refused(found, device):
    message = r"`generator` should be a torch.Generator, found (int|str|builtin_.*)\. Make one by torch.Generator\("
    refused(device, message, TypeError, generator=found)


@each(EXACT)
def test_a_generator_on_another_device_is_refused(asked, device):
    for generator in (Elsewhere(), *([torch.Generator()] if device.type == "cuda" else [])):
        message = rf"`generator` should live where the draws are needed, on {device}.*; found one on .*Make one by"
        refused(device, message, generator=generator, **asked)


def test_options_that_are_right_pass(device):
    for asked in EXACT:
        more = {"generator": torch.Generator(device), "max_block": 0, "num_data": 5, "memory": 10**6}
        assert used(mlp(device), (X, Y), **asked, **more).num_data == 5
    for asked in ({"structure": "lowrank", "rank": 3}, {"sharing": "reduce"}, {"estimate": "sampled", "samples": 3}):
        assert torch.isfinite(answer(used(mlp(device), (X, Y), **asked, bias="separate"))).all()
