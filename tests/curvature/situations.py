"""What may be asked of `curvature`, and all that a call has to leave as it found it."""

from __future__ import annotations

import random
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from case_record import Case, seeded
from cases import by_name
from curvature.problems import as_data, batches, network
from paraboloid import Batches, Curvature, curvature

STRUCTURES = ("dense", "block", "kronecker", "eigenkronecker", "diagonal", "lowrank", "products")
ESTIMATES = ("exact", "sampled", "empirical", "projected")
HESSIANS = [{"structure": s, "kind": "hessian"} for s in ("products", "dense", "block", "diagonal")]
EXACT = [{"structure": s} for s in STRUCTURES] + HESSIANS
ASKED = [{"structure": s, "estimate": e} for s, e in product(STRUCTURES, ESTIMATES)] + HESSIANS
SUMMED = [{"structure": s} for s in STRUCTURES[:5]]
ROADS = [EXACT[3], EXACT[5], EXACT[6], EXACT[7]]  # the ways through the code: sums, columns, products of two kinds


def named(options: dict[str, str]) -> str:
    return "_".join(options.values())


def each(options: list[dict[str, str]]) -> pytest.MarkDecorator:
    """One test for each entry of a list of options."""
    return pytest.mark.parametrize("asked", options, ids=named)


def on(*names: str) -> pytest.MarkDecorator:
    """One test for each of these networks of the zoo."""
    return pytest.mark.parametrize("case", [by_name(name) for name in names], ids=lambda case: case.name)


class Posed:
    """A network with its data on a device: two batches of different sizes."""

    def __init__(self, case: Case, device: torch.device, change: Callable[[nn.Module], Any] | None = None):
        self.case, self.model = case, network(case, device)
        if change is not None:
            change(self.model)
        self.made = batches(case, (case.size, 2), device)

    def tensors(self) -> list[Tensor]:
        return [tensor for inputs, targets in self.made for tensor in (*inputs, targets)]

    def data(self) -> Batches:
        return as_data(self.made)

    def fit(self, asked: dict[str, Any], **more: Any) -> Curvature:
        return curvature(self.model, self.data(), likelihood=self.case.likelihood, **asked, **more)


def probes(ggn: Curvature, count: int = 2) -> Tensor:
    """Fixed vectors (P, count)."""
    generator = torch.Generator().manual_seed(1)
    drawn = torch.randn(ggn.size, count, generator=generator, dtype=torch.float64, device="cpu")
    return drawn.to(ggn.device, ggn.dtype)


def answer(ggn: Curvature) -> Tensor:
    """A X for fixed X: what an operator is known by."""
    return ggn @ probes(ggn)


def relative(found: Tensor, wanted: Tensor) -> float:
    return float((found.double() - wanted.double()).norm() / wanted.double().norm())


# ---------------------------------------------------------------------- one small problem
def draws(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


X, Y = draws(6, 4), torch.tensor([0, 2, 1, 1, 0, 2])


def mlp(device: torch.device) -> nn.Module:
    """Linear(4, 5), Tanh, Linear(5, 3)."""
    return by_name("mlp").build().to(device)


def built(make: Callable[[], nn.Module], device: torch.device) -> nn.Module:
    """A float64 module filled from a private generator, in evaluation mode."""
    return seeded(make, "situation").to(device).eval()


def used(model: nn.Module, data: Any, likelihood: Any = "categorical", **asked: Any) -> Curvature:
    """A fit and one product: products see the data only when they are used."""
    ggn = curvature(model, data, likelihood=likelihood, **asked)
    answer(ggn)
    return ggn


# ---------------------------------------------------------------------- what is left as it was
@contextmanager
def left_as_found(model: nn.Module, *tensors: Tensor) -> Iterator[None]:
    """Whatever happens inside, nothing of the model, the tensors and PyTorch's settings may differ at the end."""
    before = everything(model, tensors)
    yield
    after = everything(model, tensors)
    assert [key for key in before.keys() | after.keys() if before.get(key) != after.get(key)] == []


def everything(model: nn.Module, tensors: tuple[Tensor, ...] = ()) -> dict[str, Any]:
    """All that can be seen of a model, of tensors and of the settings, in things that compare."""
    found = settings()
    for name, module in model.named_modules():
        found[f"{name} type"] = type(module), sorted(vars(module)), module.training, [*module.named_children()]
        for key, value in vars(module).items():
            found[f"{name}.{key}"] = _plain(value)
    found |= {f"tensor {number}": of_tensor(tensor) for number, tensor in enumerate(tensors)}
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return of_tensor(value)
    if isinstance(value, weakref.ref):
        return id(value())
    if isinstance(value, dict):
        return [(key, _plain(one)) for key, one in value.items()]
    return [_plain(one) for one in value] if isinstance(value, list) else value


def of_tensor(tensor: Tensor | None) -> Any:
    """A tensor's identity, place, numbers, gradient and hooks."""
    if tensor is None:
        return None
    numbers = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    hooks = [dict(getattr(tensor, name, None) or {}) for name in ("_backward_hooks", "_post_accumulate_grad_hooks")]
    place = id(tensor), tensor.data_ptr(), tensor._version, tensor.dtype, tensor.device, tensor.shape
    gradient = of_tensor(tensor.grad) if tensor.is_leaf else None
    return place, numbers, tensor.requires_grad, tensor.grad_fn, gradient, hooks


def settings() -> dict[str, Any]:
    """PyTorch's global settings and the states of the global generators."""
    numpy_state = np.random.get_state()
    generators = [torch.get_rng_state().tolist(), random.getstate(), [str(part) for part in numpy_state]]
    if torch.cuda.is_initialized():
        generators.append(torch.cuda.get_rng_state().tolist())
    cuda, cudnn = torch.backends.cuda, torch.backends.cudnn
    return {
        "modes": (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_anomaly_enabled()),
        "forward mode": torch._C._is_fwd_grad_enabled(),
        "types": (torch.get_default_dtype(), torch.get_default_device(), torch.is_autocast_enabled("cpu")),
        "attention": (cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.math_sdp_enabled()),
        "attention by cudnn": cuda.cudnn_sdp_enabled(),
        "fast path": torch.backends.mha.get_fastpath_enabled(),
        "cudnn": (cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32),
        "mkldnn": torch.backends.mkldnn.enabled,
        "precision": (torch.get_float32_matmul_precision(), cuda.matmul.allow_tf32),
        "determinism": (torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()),
        "overrides": torch._C._len_torch_function_stack(),
        "generators": generators,
    }
