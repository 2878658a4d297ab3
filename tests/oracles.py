"""Dense reference curvature, written for plainness: one `autograd.grad` per output scalar, whole matrices.

Nothing here comes from the library under test, not even its conventions, which are restated: a *term* is
one likelihood factor (label, token, pixel), an *example* is a row of axis 0, every operator is a mean over
terms, and the flat vector is `named_parameters()` in order, each tensor by rows, a tied tensor once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

IGNORED = -100
INTEGER = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)


class Rows(NamedTuple):
    """The terms of a batch: output rows (n, C), targets (n, ...) and the example (row of axis 0) of each."""

    outputs: Tensor
    targets: Tensor
    example: Tensor


def names_of(model: nn.Module) -> list[str]:
    """Names of the trainable parameters, in order, a tied one once."""
    return [name for name, tensor in model.named_parameters() if tensor.requires_grad]


def tensors_of(model: nn.Module, names: Sequence[str] | None = None) -> list[Tensor]:
    """The parameters behind the names (default: all trainable ones)."""
    table = dict(model.named_parameters(remove_duplicate=False))
    return [table[name] for name in (names_of(model) if names is None else names)]


def layout(model: nn.Module, names: Sequence[str] | None = None) -> dict[str, slice]:
    """Where each parameter lies in the flat vector."""
    names = names_of(model) if names is None else list(names)
    places, start = {}, 0
    for name, tensor in zip(names, tensors_of(model, names), strict=True):
        places[name] = slice(start, start + tensor.numel())
        start += tensor.numel()
    return places


def plain_weight_norm(v: Tensor, g: Tensor, dim: int) -> Tensor:
    """g v / |v|, the norm over all axes but `dim`."""
    axes = [axis for axis in range(v.ndim) if axis != dim % v.ndim]
    return v * (g / v.square().sum(axes, keepdim=True).sqrt())


@contextmanager
def plain_kernels() -> Iterator[None]:
    """Kernels that can be differentiated twice: no fused attention or recurrences, and no fused weight norm
    (whose second derivative in PyTorch 2.13 is wrong: `torch.autograd.gradgradcheck` rejects it)."""
    fused_recurrences_off = torch.backends.cudnn.flags(enabled=False)  # oneDNN has none in float64
    with sdpa_kernel(SDPBackend.MATH), fused_recurrences_off, patch("torch._weight_norm", plain_weight_norm):
        yield


# ---- terms ----


def rows_of(output: Tensor, targets: Tensor, likelihood: str) -> Rows:
    """Cut an output into terms. Categorical: the class axis is the second one if the targets have the shape
    that remains without it (as in `F.cross_entropy`), else the last one; others: the last axis, or none."""
    if likelihood == "categorical":
        second = output.shape[:1] + output.shape[2:] == targets.shape
        last = output.shape[:-1] == targets.shape
        if second == last and output.ndim > 2:
            ways = "two class axes fit" if second else "no class axis fits"
            raise ValueError(f"{ways} outputs {tuple(output.shape)} and targets {tuple(targets.shape)}")
        moved = output.movedim(1, -1) if second else output
        flat, labels = moved.reshape(-1, moved.shape[-1]), targets.reshape(-1)
        keep = labels != IGNORED
    else:
        width = 1 if output.ndim == 1 else output.shape[-1]
        flat = output.reshape(-1, width)
        labels = targets.reshape(flat.shape[0], -1)
        keep = torch.ones(flat.shape[0], dtype=torch.bool, device=output.device)
    examples = torch.arange(len(output), device=output.device)
    example = examples.repeat_interleave(len(flat) // len(output))
    return Rows(flat[keep], labels[keep], example[keep])


def output_losses(outputs: Tensor, targets: Tensor, likelihood: str) -> Tensor:
    """-log p(y|h) of each row (n,), by PyTorch's own losses, constants that do not depend on h left out."""
    if likelihood == "categorical":
        return F.cross_entropy(outputs, targets, reduction="none")
    if likelihood == "bernoulli":
        return F.binary_cross_entropy_with_logits(outputs, targets.to(outputs.dtype), reduction="none").sum(1)
    if likelihood == "gaussian":
        return 0.5 * F.mse_loss(outputs, targets, reduction="none").sum(1)
    if likelihood == "mse":
        return F.mse_loss(outputs, targets, reduction="none").mean(1)
    if likelihood == "poisson":
        return F.poisson_nll_loss(outputs, targets, log_input=True, full=False, reduction="none").sum(1)
    if likelihood == "heteroscedastic":
        variance = -0.5 / outputs[:, 1]
        mean = outputs[:, 0] * variance
        return F.gaussian_nll_loss(mean, targets[:, 0], variance, reduction="none", eps=1e-300)
    raise ValueError(f"no oracle for the likelihood {likelihood!r}")


def output_gradient(outputs: Tensor, targets: Tensor, likelihood: str) -> Tensor:
    """∂ℓ/∂h of each row (n, C), by autograd."""
    h = outputs.detach().requires_grad_()
    return torch.autograd.grad(output_losses(h, targets, likelihood).sum(), h)[0]


def output_curvature(outputs: Tensor, likelihood: str) -> Tensor:
    """∂²ℓ/∂h² of each row (n, C, C), by the textbook formula (y does not enter for these likelihoods)."""
    h = outputs.detach()
    if likelihood == "categorical":
        p = h.softmax(1)
        return torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
    if likelihood == "bernoulli":
        p = h.sigmoid()
        return torch.diag_embed(p * (1 - p))
    if likelihood == "gaussian":
        return torch.diag_embed(torch.ones_like(h))
    if likelihood == "mse":
        return torch.diag_embed(torch.full_like(h, 2 / h.shape[1]))
    if likelihood == "poisson":
        return torch.diag_embed(h.exp())
    if likelihood == "heteroscedastic":
        first, second = h.unbind(1)
        across = first / (2 * second**2)
        corner = 1 / (2 * second**2) - first**2 / (2 * second**3)
        return torch.stack([-1 / (2 * second), across, across, corner], 1).reshape(-1, 2, 2)
    raise ValueError(f"no oracle for the likelihood {likelihood!r}")


def output_curvature_by_autograd(outputs: Tensor, targets: Tensor, likelihood: str) -> Tensor:
    """The same matrices, by differentiating PyTorch's loss twice."""
    h = outputs.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(output_losses(h, targets, likelihood).sum(), h, create_graph=True)
    if not gradient.requires_grad:
        raise ValueError("the loss is linear in the output")
    columns = [torch.autograd.grad(gradient[:, c].sum(), h, retain_graph=True)[0] for c in range(h.shape[1])]
    return torch.stack(columns, 1)


# ---- derivatives of the network ----


def flat_gradient(scalar: Tensor, tensors: Sequence[Tensor], create_graph: bool = False) -> Tensor:
    """One gradient as a flat vector; a parameter that is not used has zeros."""
    if not scalar.requires_grad:
        return torch.cat([torch.zeros_like(t).reshape(-1) for t in tensors])
    found = torch.autograd.grad(scalar, tensors, retain_graph=True, allow_unused=True, create_graph=create_graph)
    filled = [torch.zeros_like(t) if g is None else g for g, t in zip(found, tensors, strict=True)]
    return torch.cat([g.reshape(-1) for g in filled])


def per_term_jacobian(
    model: nn.Module, names: Sequence[str] | None, inputs: tuple, rows_fn: Callable[[Tensor], Tensor]
) -> Tensor:
    """Jacobian of every term's output row, (n, C, P); `rows_fn` turns the model's output into rows (n, C)."""
    with torch.enable_grad():
        rows, tensors = rows_fn(model(*inputs)), tensors_of(model, names)
        flat = [flat_gradient(scalar, tensors) for scalar in rows.reshape(-1)]
    return torch.stack(flat).reshape(*rows.shape, -1).detach()


def terms_and_jacobian(model: nn.Module, inputs: tuple, targets: Tensor, likelihood: str, names=None):
    """The terms of a batch (outputs detached) and the Jacobian of their rows."""
    with torch.enable_grad():
        rows = rows_of(model(*inputs), targets, likelihood)
    jacobian = per_term_jacobian(model, names, inputs, lambda out: rows_of(out, targets, likelihood).outputs)
    return Rows(rows.outputs.detach(), rows.targets, rows.example), jacobian


def per_term_gradients(model, inputs: tuple, targets: Tensor, likelihood: str, names=None) -> Tensor:
    """∇ℓ of every term (n, P), one backward pass each, no Jacobian involved."""
    with torch.enable_grad():
        rows = rows_of(model(*inputs), targets, likelihood)
        losses, tensors = output_losses(rows.outputs, rows.targets, likelihood), tensors_of(model, names)
        return torch.stack([flat_gradient(loss, tensors) for loss in losses])


def per_example_gradients(model, inputs: tuple, targets: Tensor, likelihood: str, names=None) -> Tensor:
    """Gradient of every example's summed loss (examples, P); zeros for an example whose terms are ignored."""
    with torch.enable_grad():
        rows = rows_of(model(*inputs), targets, likelihood)
        losses = output_losses(rows.outputs, rows.targets, likelihood)
        sums = [losses[rows.example == i].sum() for i in range(len(targets))]
        return torch.stack([flat_gradient(loss, tensors_of(model, names)) for loss in sums])


def gradient(model, inputs: tuple, targets: Tensor, likelihood: str, names=None) -> Tensor:
    """Gradient of the mean loss over the terms (P,)."""
    with torch.enable_grad():
        return flat_gradient(mean_loss(model, inputs, targets, likelihood), tensors_of(model, names))


# ---- curvature ----


def _weights(weights: Tensor | None, count: int, like: Tensor) -> Tensor:
    return like.new_ones(count) if weights is None else weights.reshape(-1).to(like)


def ggn(model, inputs, targets, likelihood, names=None, weights: Tensor | None = None) -> Tensor:
    """Gauss-Newton matrix (1/Σw) Σ_terms w Jᵀ 𝒢 J, (P, P); `weights` has one number per kept term."""
    rows, jacobian = terms_and_jacobian(model, inputs, targets, likelihood, names)
    curvature, w = output_curvature(rows.outputs, likelihood), _weights(weights, len(jacobian), jacobian)
    return torch.einsum("n,ncp,ncd,ndq->pq", w, jacobian, curvature, jacobian) / w.sum()


def fisher_by_enumeration(model, inputs, targets, likelihood="categorical", names=None) -> Tensor:
    """Fisher matrix with the expectation over labels written out: (1/n) Σ_terms Σ_y p(y) ∇ℓ(y) ∇ℓ(y)ᵀ, for
    categorical and Bernoulli outputs. `targets` only says which terms count."""
    rows, jacobian = terms_and_jacobian(model, inputs, targets, likelihood, names)
    total = jacobian.new_zeros(jacobian.shape[2], jacobian.shape[2])
    for label in _all_labels(rows.outputs.shape[1], likelihood, rows.outputs.device):
        labels = label.expand(len(jacobian), *label.shape)
        weight = (-output_losses(rows.outputs, labels, likelihood)).exp()
        scores = torch.einsum("ncp,nc->np", jacobian, output_gradient(rows.outputs, labels, likelihood))
        total += (weight[:, None] * scores).T @ scores
    return total / len(jacobian)


def _all_labels(classes: int, likelihood: str, device) -> list[Tensor]:
    if likelihood == "categorical":
        return list(torch.arange(classes, device=device))
    if likelihood == "bernoulli":
        return list(torch.cartesian_prod(*[torch.arange(2.0, device=device)] * classes).reshape(-1, classes))
    raise ValueError(f"labels of {likelihood!r} cannot be enumerated")


def empirical_fisher(model, inputs, targets, likelihood, names=None, weights: Tensor | None = None) -> Tensor:
    """(1/terms) Σ_examples g gᵀ, g the gradient of the example's summed loss; `weights`: one per example."""
    with torch.enable_grad():
        example = rows_of(model(*inputs), targets, likelihood).example
    gradients = per_example_gradients(model, inputs, targets, likelihood, names)
    w = _weights(weights, len(gradients), gradients)
    return (w[:, None] * gradients).T @ gradients / w[example].sum()


def mean_loss(model, inputs, targets, likelihood) -> Tensor:
    """Mean loss over the terms of a batch."""
    rows = rows_of(model(*inputs), targets, likelihood)
    return output_losses(rows.outputs, rows.targets, likelihood).mean()


def hessian(model, inputs, targets, likelihood, names=None) -> Tensor:
    """Hessian of the mean loss (P, P): the gradient, then one backward pass per element of it."""
    with torch.enable_grad(), plain_kernels():
        tensors = tensors_of(model, names)
        gradient = flat_gradient(mean_loss(model, inputs, targets, likelihood), tensors, create_graph=True)
        return torch.stack([flat_gradient(element, tensors) for element in gradient]).detach()


# ---- Kronecker factors of one layer ----


def with_ones(a: Tensor) -> Tensor:
    """Inputs with a last column of ones, for the bias."""
    return torch.cat([a, torch.ones_like(a[..., :1])], -1)


def kfac_expand(a: Tensor, c: Tensor, bias: bool = False) -> tuple[Tensor, Tensor]:
    """Factors A = (1/(NT)) Σ ââᵀ and G = (1/N) Σ_k ccᵀ from inputs a (N, T, in), columns c (K, N, T, out)."""
    a = with_ones(a) if bias else a
    n, t = a.shape[:2]
    return torch.einsum("nti,ntj->ij", a, a) / (n * t), torch.einsum("knto,kntp->op", c, c) / n


def kfac_reduce(a: Tensor, c: Tensor, bias: bool = False) -> tuple[Tensor, Tensor]:
    """Factors A = (1/N) Σ āāᵀ of mean inputs and G = (1/N) Σ_k c̄c̄ᵀ of columns summed over positions."""
    mean, total = (with_ones(a) if bias else a).mean(1), c.sum(2)
    return mean.T @ mean / len(mean), torch.einsum("kno,knp->op", total, total) / len(mean)


def ekfac_from_dense(block: Tensor, u_g: Tensor, u_a: Tensor) -> Tensor:
    """Best eigenvalues (out, in) for the basis U_G ⊗ U_A: the diagonal of Uᵀ F U."""
    basis = torch.kron(u_g.contiguous(), u_a.contiguous())
    return (basis.T @ block @ basis).diagonal().reshape(len(u_g), len(u_a))
