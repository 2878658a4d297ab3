"""Kronecker factors of networks made of `nn.Linear`, seen by plain module hooks and one backward per column.

Only for layers whose inputs are (N, ..., in) with the example first. Several calls of one layer count as
further positions. With M positions an example and R terms in all:
expand: A = (1/(N M)) Σ ââᵀ, G = (1/R) Σ_columns Σ_positions ccᵀ, the columns of all terms;
reduce: A = (1/N) Σ_examples āāᵀ with the mean over positions, G from columns summed over positions.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

import oracles

Factors = dict[str, tuple[Tensor, Tensor]]


def linear_uses(model: nn.Module, inputs: tuple) -> tuple[Tensor, dict[str, list[tuple[Tensor, Tensor]]]]:
    """The output, and for every Linear its calls as pairs (input, output)."""
    uses: dict[str, list[tuple[Tensor, Tensor]]] = {}
    layers = [(name, layer) for name, layer in model.named_modules() if isinstance(layer, nn.Linear)]

    def note(name: str):
        return lambda _, args, out: uses.setdefault(name, []).append((args[0].detach(), out))

    handles = [layer.register_forward_hook(note(name)) for name, layer in layers]
    try:
        output = model(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    return output, uses


def symmetric_roots(matrices: Tensor) -> Tensor:
    """Symmetric square roots of positive semidefinite matrices (n, C, C)."""
    values, vectors = torch.linalg.eigh(matrices)
    return vectors @ (values.clamp_min(0).sqrt()[:, :, None] * vectors.mT)


def columns_at(output: Tensor, targets: Tensor, likelihood: str, nodes: list[Tensor]) -> tuple[list, int]:
    """For every node the gradients (K, *node.shape) of all columns of all terms, and the number of terms."""
    rows = oracles.rows_of(output, targets, likelihood).outputs
    roots, found = symmetric_roots(oracles.output_curvature(rows, likelihood)), []
    for term, root in zip(rows, roots, strict=True):
        for column in root.T:
            found.append(torch.autograd.grad(term, nodes, column, retain_graph=True, materialize_grads=True))
    return [torch.stack(each) for each in zip(*found, strict=True)], len(rows)


def kronecker_factors(
    model: nn.Module, inputs: tuple, targets: Tensor, likelihood: str, sharing: str = "expand"
) -> Factors:
    """Factors (A, G) of every Linear; its bias, if there is one, is the last column of A."""
    with torch.enable_grad():
        output, uses = linear_uses(model, inputs)
        nodes = [out for calls in uses.values() for _, out in calls]
        columns, terms = columns_at(output, targets, likelihood, nodes)
    factors, done = {}, 0
    for name, calls in uses.items():
        n, layer = len(calls[0][0]), model.get_submodule(name)
        a = torch.cat([x.reshape(n, -1, x.shape[-1]) for x, _ in calls], 1)
        mine = columns[done : done + len(calls)]
        c = torch.cat([g.reshape(len(g), n, -1, g.shape[-1]) for g in mine], 2)
        done += len(calls)
        make = oracles.kfac_expand if sharing == "expand" else oracles.kfac_reduce
        right, left = make(a, c, bias=layer.bias is not None)  # type: ignore[union-attr]
        factors[name] = (right, left * n / terms)
    return factors


def stored_block(a: Tensor, g: Tensor, bias: bool) -> Tensor:
    """G ⊗ A in the order of the flat vector: the weight by rows, then the bias."""
    block = torch.kron(g, a)
    if not bias:
        return block
    place = torch.arange(len(block)).reshape(len(g), len(a))
    order = torch.cat([place[:, :-1].reshape(-1), place[:, -1]])
    return block[order][:, order]
