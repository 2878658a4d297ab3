"""A model as a function of its weights, run with kernels that can be differentiated as we need.

Nothing here changes the model: weights are passed in, settings of PyTorch are put back, and whether the
model is in training mode is asked (`require_eval`), never changed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.overrides import TorchFunctionMode

from paraboloid.spaces.params import Params
from paraboloid.spaces.randomness import preserved_random_state


@contextmanager
def kernels(model: nn.Module, *, forward_mode: bool = False) -> Iterator[None]:
    """Inside, the model runs on kernels whose autograd graph is whole; settings are restored at the end.

    Attention leaves its fast path, which records no steps. Recurrent nets leave cuDNN, whose backward does
    not run in eval mode, and the fused CPU kernel, which hides its steps; for other models both stay on.
    With `forward_mode`, attention takes the plain kernel, for fused ones have no forward mode.

    >>> with kernels(nn.LSTM(2, 3)):
    ...     torch.backends.cudnn.enabled, torch.backends.mha.get_fastpath_enabled()
    (False, False)
    """
    with ExitStack() as stack:
        stack.callback(torch.backends.mha.set_fastpath_enabled, torch.backends.mha.get_fastpath_enabled())
        torch.backends.mha.set_fastpath_enabled(False)
        recurrent = [module for module in model.modules() if isinstance(module, nn.RNNBase)]
        for module in recurrent:
            # a functional call leaves them with its own weights until their next forward
            for name in ("_flat_weights", "_flat_weight_refs"):
                stack.callback(setattr, module, name, getattr(module, name))
        if recurrent:
            # attributes, not `flags(...)`: that would also reset the user's precision settings
            backends: tuple[Any, ...] = (torch.backends.cudnn, torch.backends.mkldnn)
            for backend in backends:
                stack.callback(setattr, backend, "enabled", backend.enabled)
                backend.enabled = False
        if forward_mode:
            stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        yield


class PlainWeightNorm(TorchFunctionMode):
    """Weight normalisation step by step: PyTorch's fused kernel has a second derivative that is wrong.

    >>> v, g = torch.randn(2, 3, requires_grad=True), torch.ones(2, 1)
    >>> with PlainWeightNorm():
    ...     torch._weight_norm(v, g, 0).grad_fn.name()
    'MulBackward0'
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is not torch._weight_norm:  # pyright: ignore[reportPrivateImportUsage]
            return func(*args, **(kwargs or {}))
        return plain_weight_norm(*args, **(kwargs or {}))


def plain_weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """g v / ‖v‖, the norm over all axes but ``dim`` (-1: over all of them).

    >>> plain_weight_norm(torch.tensor([[3.0, 4.0]]), torch.ones(1, 1))
    tensor([[0.6000, 0.8000]])
    """
    axes = None if dim == -1 else [axis for axis in range(v.ndim) if axis != dim]
    return v * (g / torch.linalg.vector_norm(v, dim=axes, keepdim=axes is not None))


def call(model: nn.Module, tensors: Mapping[str, Tensor], args: tuple, kwargs: Mapping[str, Any]) -> Any:
    """The model's output with the named tensors in the place of its own; tied tensors follow.

    Buffers that the forward may write to are copies, so that the model's own stay as they are.

    >>> model = nn.Linear(2, 1, bias=False)
    >>> call(model, {"weight": torch.ones(1, 2)}, (torch.ones(3, 2),), {}).flatten().tolist()
    [2.0, 2.0, 2.0]
    """
    replaced = {**_scratch_buffers(model), **tensors}
    if not replaced:
        return model(*args, **kwargs)
    return torch.func.functional_call(model, replaced, args, dict(kwargs), tie_weights=True)


def model_output(out: Any) -> Tensor:
    """The tensor in what a model returned: a tensor, `.logits`, `["logits"]` or a tuple of one.

    >>> model_output({"logits": torch.zeros(2, 3)}).shape
    torch.Size([2, 3])
    """
    if isinstance(out, Tensor):
        return out
    logits = getattr(out, "logits", None)
    if isinstance(logits, Tensor):
        return logits
    if isinstance(out, Mapping) and isinstance(out.get("logits"), Tensor):
        return out["logits"]
    if isinstance(out, (tuple, list)) and len(out) == 1 and isinstance(out[0], Tensor):
        return out[0]
    raise TypeError(
        "the model should return a tensor, something with .logits or ['logits'], or a tuple of one tensor; "
        "found "
        f"{_shape_of(out)}. Say which tensor it is: paraboloid.Batches(data, outputs=lambda out: out[0])."
    )


def predict_many(
    model: nn.Module,
    params: Params,
    flat: Tensor,
    args: tuple,
    kwargs: Mapping[str, Any],
    output: Callable[[Any], Tensor] = model_output,
    chunk_size: int | None = None,
) -> Tensor:
    """Outputs (K, ...) of the model at K weight vectors `flat` (K, P), differentiable in `flat`.

    Batched by vmap where the model allows it, one after another where it does not; the model's buffers and
    the global random state are as before. `chunk_size` bounds how many run at once.

    >>> model = nn.Linear(2, 1)
    >>> flat = torch.zeros(4, 3)
    >>> predict_many(model, Params.of(model), flat, (torch.ones(5, 2),), {}).shape
    torch.Size([4, 5, 1])
    """
    if flat.ndim != 2:
        raise ValueError(f"`flat` should be (K, P) = (K, {params.numel}), found shape {tuple(flat.shape)}.")
    dtypes = {name: tensor.dtype for name, tensor in params.tensors(model).items()}

    def one(vector: Tensor) -> Tensor:
        tensors = {name: t.to(dtypes[name]) for name, t in params.unflatten(vector).items()}
        return output(call(model, tensors, args, kwargs))

    untouched = preserved_random_state(flat.device) if _writes(model) else nullcontext()
    with kernels(model), untouched:
        try:
            with warnings.catch_warnings():
                # an operation without a batching rule would loop inside vmap, slower than our own loop
                warnings.filterwarnings("error", message="There is a performance drop")
                return torch.func.vmap(one, chunk_size=chunk_size)(flat)
        except (RuntimeError, ValueError, TypeError, NotImplementedError, UserWarning):
            # control flow on values, in-place writes, .item(): the loop decides whether it is a real error
            return torch.stack([one(vector) for vector in flat])


def require_eval(model: nn.Module) -> None:
    """Raise, naming the modules, if examples are coupled by a batch norm or outputs are random by dropout.

    >>> require_eval(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)))
    Traceback (most recent call last):
    RuntimeError: the model should be in eval mode: 1 (Dropout, p = 0.5) draws at random.
    Call model.eval() first.
    """
    problems, incurable = [], []
    for name, module in model.named_modules():
        label = f"{name or 'the model itself'} ({type(module).__name__}"
        if isinstance(module, _BatchNorm) and module.training:
            problems.append(f"{label}) normalises by the batch")
        elif isinstance(module, _BatchNorm) and (module.running_mean is None or module.running_var is None):
            incurable.append(f"{label}, no running statistics)")
        elif _dropout(module) > 0:
            problems.append(f"{label}, p = {_dropout(module)}) draws at random")
    if incurable:
        raise RuntimeError(
            f"batch norm couples the examples even in eval mode: {_joined(incurable)}. Use "
            "track_running_stats=True, or a norm that works per example (GroupNorm, LayerNorm)."
        )
    if problems:
        raise RuntimeError(f"the model should be in eval mode: {_joined(problems)}.\nCall model.eval() first.")


def _dropout(module: nn.Module) -> float:
    """Probability with which the module drops numbers now."""
    if not module.training:
        return 0.0
    if isinstance(module, _DropoutNd):
        return module.p
    if isinstance(module, nn.MultiheadAttention):
        return module.dropout
    if isinstance(module, nn.RNNBase) and module.num_layers > 1:
        return module.dropout
    return 0.0


def _scratch_buffers(model: nn.Module) -> dict[str, Tensor]:
    """Copies of the buffers of modules that may write to them: those in training mode, and those not of PyTorch."""
    found: dict[int, tuple[str, Tensor]] = {}
    for prefix, module in model.named_modules():
        if module.training or not type(module).__module__.startswith("torch.nn."):
            for name, buffer in module.named_buffers(prefix, recurse=False):
                found.setdefault(id(buffer), (name, buffer))
    return {name: buffer.detach().clone() for name, buffer in found.values()}


def _writes(model: nn.Module) -> bool:
    """Whether a forward may change buffers or draw at random."""
    return any(module.training for module in model.modules())


def _joined(labels: list[str]) -> str:
    shown = ", ".join(labels[:5])
    return shown if len(labels) <= 5 else f"{shown} and {len(labels) - 5} more"


def _shape_of(out: Any) -> str:
    if isinstance(out, Mapping):
        return f"{type(out).__name__} with the keys {', '.join(map(str, out))}"
    if isinstance(out, (tuple, list)):
        return f"a {type(out).__name__} of {len(out)} ({', '.join(type(one).__name__ for one in out)})"
    return type(out).__name__
