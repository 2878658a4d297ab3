"""What is refused before anything is summed: no terms, no graph, NaN or inf; each with the name of where it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from paraboloid.curvature.graph import UncoveredError
from paraboloid.curvature.problem import Problem
from paraboloid.spaces.batches import Batch
from paraboloid.spaces.functional import call, kernels
from paraboloid.spaces.params import Params
from paraboloid.spaces.randomness import preserved_random_state


def require_finite(tensors: Sequence[Tensor], message: str) -> None:
    """Raise if any number is NaN or infinite."""
    for tensor in tensors:
        if not bool(torch.isfinite(tensor.detach()).all()):
            raise ValueError(f"{message}.")


def bad_parameter(params: Params, flat: Tensor) -> str | None:
    """The name of the first parameter at which (..., P) numbers are not all finite; None if they are."""
    finite = torch.isfinite(flat).reshape(-1, params.numel).all(0)
    if bool(finite.all()):
        return None
    return next(name for name, piece in params.slices.items() if not bool(finite[piece].all()))


def not_finite(name: str) -> ValueError:
    """The error for gradients that are no numbers."""
    return ValueError(
        f"the gradients of {name!r} hold NaN or inf. Check the scale of that layer's outputs and of the targets; in "
        "half precision use bfloat16 or float32."
    )


def require_terms(count: float) -> None:
    """Raise if there is nothing to average over."""
    if not count > 0:
        raise ValueError(
            "the data hold no terms: every target was ignored, or every weight is zero. Check ignore_index, the "
            "targets and the weights."
        )


def require_graph(output: Tensor) -> None:
    """Raise if nothing of what was computed is known to autograd."""
    if output.grad_fn is None:
        raise UncoveredError(
            "The model's output has no autograd graph: none of the chosen parameters takes part in it, or the "
            "forward detaches, runs under no_grad, or leaves PyTorch. Return an output that can be differentiated."
        )


def require_finite_rows(rows: Tensor, problem: Problem, batch: Batch) -> None:
    """Raise if an output is NaN or infinite, with the parameter or the layer that it comes from."""
    if bool(torch.isfinite(rows.detach()).all()):
        return
    require_finite(tensors_in((batch.args, batch.kwargs)), "the inputs hold NaN or inf; clean the data first")
    for name, tensor in problem.model.named_parameters():
        if not bool(torch.isfinite(tensor.detach()).all()):
            raise ValueError(f"parameter {name!r} holds NaN or inf; restore it from a checkpoint or initialise it.")
    layer = _first_bad_module(problem, batch)
    raise ValueError(f"the model's outputs hold NaN or inf, first after {layer}; check that layer's inputs and scale.")


def tensors_in(value: Any) -> list[Tensor]:
    """All floating tensors anywhere in a value.

    >>> tensors_in(({"a": [torch.zeros(1)]}, 3))
    [tensor([0.])]
    """
    if isinstance(value, Tensor):
        return [value] if value.is_floating_point() else []
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, (tuple, list)) else ()
    return [tensor for part in parts for tensor in tensors_in(part)]


def _first_bad_module(problem: Problem, batch: Batch) -> str:
    """The first module whose output is not finite; looked for only when the answer is needed in an error."""
    found: list[str] = []
    names = {module: name for name, module in problem.model.named_modules()}

    def look(module: nn.Module, args: Any, out: Any) -> None:
        if not found and any(not bool(torch.isfinite(tensor).all()) for tensor in tensors_in(out)):
            found.append(f"{names[module] or 'the model itself'!r} ({type(module).__name__})")

    hooks = [module.register_forward_hook(look) for module in problem.model.modules()]
    try:
        with torch.no_grad(), kernels(problem.model), preserved_random_state(problem.device):
            call(problem.model, {}, batch.args, batch.kwargs)
    finally:
        for hook in hooks:
            hook.remove()
    return found[0] if found else "an operation outside its modules"
