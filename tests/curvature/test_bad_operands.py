"""What is done with a fit: wrong vectors, negative damping, too little memory, fits that do not go together, files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from curvature.situations import EXACT, SUMMED, X, Y, answer, built, each, mlp, relative, used
from paraboloid import Curvature, Diagonal, Gaussian, load_operator

HELD = [asked for asked in EXACT if asked["structure"] != "products"]
FIXED = [asked for asked in EXACT if asked not in SUMMED]
P = 43


def fit(device: torch.device, asked: dict[str, str], data=((X, Y)), **more) -> Curvature:
    return used(mlp(device), data, **asked, **more)


# ---------------------------------------------------------------------- vectors
VECTORS: dict[str, tuple[Callable[[torch.device], object], str]] = {
    "short": (lambda d: torch.ones(5, device=d), r"acts on vectors of shape \(43,\) or \(43, K\), found \(5,\)"),
    "long": (lambda d: torch.ones(44, device=d), r"vectors of shape \(43,\) or \(43, K\), found \(44,\)"),
    "rows": (lambda d: torch.ones(2, P, device=d), r"found \(2, 43\). Put the flat vector's axis first"),
    "cube": (lambda d: torch.ones(P, 1, 1, device=d), r"found \(43, 1, 1\)"),
    "number": (lambda d: torch.ones((), device=d), r"found \(\)"),
    "single": (lambda d: torch.ones(P, device=d).float(), r"dtype torch.float64, the vectors torch.float32. Convert"),
    "integers": (lambda d: torch.ones(P, device=d).int(), r"dtype torch.float64, the vectors torch.int32. Convert"),
    "elsewhere": (lambda d: torch.ones(P, device="meta"), r"is on .*, the vectors on meta. Move one of them"),
    "list": (lambda d: [1.0] * P, r"acts on a tensor \(43,\) or \(43, K\); found list"),
    "nothing": (lambda d: None, r"acts on a tensor \(43,\) or \(43, K\); found NoneType"),
}  # fmt: skip


@pytest.mark.parametrize("vector", VECTORS)
@each(EXACT)
def test_vectors_that_do_not_fit_are_refused(asked, vector, device):
    make, message = VECTORS[vector]
    ggn = fit(device, asked)
    for apply in (ggn.__matmul__, ggn.solve, (ggn * 2).solve):
        with pytest.raises((TypeError, ValueError), match=message):
            apply(make(device))


DAMPING = [
    (-1e-3, ValueError, r"negative damping: A \+ c shifts a semi-definite operator by c ≥ 0, found c = -0.001"),
    (float("nan"), ValueError, r"`\+` needs a finite number, found nan"),
    (float("inf"), ValueError, r"`\+` needs a finite number, found inf"),
    ("1e-3", TypeError, r"`\+` combines an operator with a number or an operator, found str"),
    (torch.ones(P), TypeError, r"`\+` combines an operator with a number or an operator, found Tensor"),
]


@pytest.mark.parametrize(("c", "error", "message"), DAMPING, ids=["negative", "nan", "inf", "str", "tensor"])
@each([asked for asked in EXACT if "kind" not in asked])
def test_damping_that_is_none_is_refused(asked, c, error, message, device):
    ggn = fit(device, asked)
    for add in (lambda: ggn + c, lambda: ggn.operator + c):
        with pytest.raises(error, match=message):
            add()


@each(EXACT)
def test_a_fit_is_an_operator_in_sums_and_differences(asked, device):
    ggn = fit(device, asked)
    v = torch.ones(P, device=device)
    wanted = ggn @ v
    for found in ((ggn + 2.0) @ v - 2, (2.0 + ggn) @ v - 2, 2 - (2 - ggn) @ v, -(-ggn @ v), (ggn * 3 / 3) @ v):
        assert relative(found, wanted) < 1e-12


# ---------------------------------------------------------------------- memory
@each(EXACT)
def test_a_matrix_beyond_the_budget_is_not_written_out(asked, device):
    message = r"dense \(43, 43\) matrix needs 1.48e\+04 bytes, allowed are 100. Use products .*or raise `memory=`"
    with pytest.raises(MemoryError, match=message):
        fit(device, asked).dense(memory=100)


@pytest.mark.parametrize("size", [(43, "dense"), (25, "block"), (5, "kronecker"), (5, "eigenkronecker")], ids=str)
@pytest.mark.parametrize("kind", ["ggn", "hessian"])
def test_a_structure_beyond_the_budget_is_refused_with_a_smaller_one(kind, size, device):
    width, structure = size
    if kind == "hessian" and "kronecker" in structure:
        return
    message = rf"structure='{structure}' needs a \({width}, {width}\) matrix of .* bytes, allowed are 100. Use structu"
    with pytest.raises(MemoryError, match=message):
        fit(device, {"structure": structure, "kind": kind}, memory=100)
    assert fit(device, {"structure": structure, "kind": kind}, memory=8 * (width + 1) ** 2).size == P


def test_a_structure_beyond_what_is_held_without_asking_is_refused(device):
    wide = built(lambda: nn.Linear(300, 100), device)
    for structure, kind in (("dense", "ggn"), ("block", "ggn"), ("dense", "hessian"), ("block", "hessian")):
        with pytest.raises(MemoryError, match=r"\(30100, 30100\) matrix of 7.25e\+09 bytes, allowed are 4.29e\+09"):
            used(wide, (torch.ones(2, 300), torch.tensor([1, 2])), structure=structure, kind=kind)


# ---------------------------------------------------------------------- going on
@each(FIXED)
def test_what_holds_no_sums_is_neither_updated_nor_merged(asked, device):
    ggn, summed = fit(device, asked), fit(device, {"structure": "dense"})
    tries = {
        "update": lambda: ggn.update((X, Y)), "merge": lambda: ggn.merge(ggn), "merge ": lambda: summed.merge(ggn),
    }  # fmt: skip
    for what, attempt in tries.items():
        message = (
            rf"structure='{asked['structure']}' holds no running sums, so there is nothing to {what.strip()}. Fit "
        )
        with pytest.raises(ValueError, match=message):
            attempt()


OTHERS: dict[str, Callable[[torch.device, dict], Curvature]] = {
    "structure": lambda d, asked: fit(d, {"structure": "dense" if asked["structure"] != "dense" else "block"}),
    "estimate": lambda d, asked: fit(d, {**asked, "estimate": "empirical"}),
    "parameters": lambda d, asked: fit(d, asked, params="2.*"),
    "bias": lambda d, asked: fit(d, {**asked, "bias": "separate"}),
    "likelihood": lambda d, asked: used(mlp(d), (X, X[:, :3]), "gaussian", **asked),
    "model": lambda d, asked: used(built(lambda: nn.Linear(4, 3), d), (X, Y), **asked),
}


@pytest.mark.parametrize("other", OTHERS)
@each(SUMMED)
def test_fits_that_differ_are_not_merged_and_stay_as_they_are(asked, other, device):
    ggn, second = fit(device, asked), OTHERS[other](device, asked)
    before = answer(ggn), answer(second)
    with pytest.raises(ValueError, match=r"two fits of the same model, parameters, likelihood and options; found diff"):
        ggn.merge(second)
    assert torch.equal(answer(ggn), before[0])
    assert torch.equal(answer(second), before[1])
    assert ggn.num_data == second.num_data == 6


@each(SUMMED)
def test_only_fits_are_merged(asked, device):
    ggn = fit(device, asked)
    for other, found in ((ggn.operator, type(ggn.operator).__name__), (None, "NoneType")):
        with pytest.raises(TypeError, match=rf"merge adds the sums of another Curvature, found {found}. Operators are"):
            ggn.merge(other)


def test_corrections_in_two_bases_are_not_added(device):
    asked = {"structure": "eigenkronecker"}
    with pytest.raises(
        ValueError, match=r"different eigenbases, so their corrections cannot be added. Use.*update\(\)"
    ):
        fit(device, asked).merge(fit(device, asked, (X[:3], Y[:3])))


BATCHES = {
    "nan": ((X * float("nan"), Y), "inputs hold NaN or inf"),
    "labels": ((X, Y + 7), "class indices should be 0 to 2"),
    "tensor": (X, "a batch should be .*found Tensor"),
    "weights": ((X, Y, -X[:, 0].abs()), "finite and not negative"),
}


@pytest.mark.parametrize("batch", BATCHES)
@each(SUMMED)
def test_a_batch_that_cannot_be_added_is_refused_and_changes_nothing(asked, batch, device):
    given, message = BATCHES[batch]
    ggn = fit(device, asked)
    before = answer(ggn)
    with pytest.raises((TypeError, ValueError), match=message):
        ggn.update(given)
    assert torch.equal(answer(ggn), before)
    # eigenvectors are as loose as their gaps are small
    tolerance = 1e-6 if asked["structure"] == "eigenkronecker" else 1e-13
    assert relative(answer(ggn.update((X, Y))), answer(fit(device, asked, [(X, Y)] * 2))) < tolerance


@each(SUMMED)
@pytest.mark.parametrize("decay", [1.0, -0.1, float("nan")], ids=str)
def test_a_decay_out_of_range_is_refused(asked, decay, device):
    with pytest.raises(ValueError, match=rf"decay= should be at least 0 and below 1, found {decay}"):
        fit(device, asked).update((X, Y), decay=decay)


# ---------------------------------------------------------------------- files
def test_products_are_not_saved(device, tmp_path):
    for asked in EXACT:
        if asked["structure"] == "products":
            with pytest.raises(
                TypeError, match=r"is a function: .*neither moved nor saved. Save its `dense\(\)` matri"
            ):
                fit(device, asked).save(tmp_path / "a")
    assert not list(tmp_path.iterdir())


@each(HELD)
def test_what_is_held_is_saved_and_loaded(asked, device, tmp_path):
    ggn = fit(device, asked)
    ggn.save(tmp_path / "a")
    v = torch.ones(P, device=device)
    assert relative(load_operator(tmp_path / "a", device) @ v, ggn @ v) < 1e-14


def _tensors(path: Path) -> None:
    save_file({"weight": torch.ones(2)}, path)


def _gaussian(path: Path) -> None:
    Gaussian(torch.zeros(3), Diagonal(torch.ones(3))).save(path)


def _cut(path: Path) -> None:
    Diagonal(torch.ones(300)).save(path)
    path.write_bytes(path.read_bytes()[:-100])


FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "none": (lambda path: None, "there is no file"),
    "folder": (lambda path: path.mkdir(), "there is no file"),
    "text": (lambda path: path.write_text("A = 1"), "is not a whole safetensors file .*Save it again"),
    "pickle": (lambda path: torch.save({"a": 1}, path), "is not a whole safetensors file"),
    "cut": (_cut, "is not a whole safetensors file"),
    "tensors": (_tensors, "was not written by paraboloid: .*found None. Read it with safetensors"),
    "gaussian": (_gaussian, "should hold an operator, found 'gaussian'"),
}


@pytest.mark.parametrize("file", FILES)
def test_a_file_that_holds_no_operator_is_refused(file, tmp_path):
    write, message = FILES[file]
    write(tmp_path / "a")
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        load_operator(tmp_path / "a")
