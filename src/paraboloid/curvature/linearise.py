"""One batch linearised: J v by forward mode, Jᵀ u and H v by reverse mode. No layer rule is needed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager

import torch
import torch.autograd.forward_ad as forward_ad
from torch import Tensor

from paraboloid.curvature.capture import Problem
from paraboloid.spaces.batches import Batch
from paraboloid.spaces.functional import call, kernels
from paraboloid.spaces.randomness import preserved_random_state
from paraboloid.spaces.terms import Terms, terms

SMALL = 100_000  # numbers in a batch's outputs × parameters below which products are stacked


class Linearised:
    """A batch's terms as a differentiable function of the chosen parameters."""

    def __init__(self, problem: Problem, batch: Batch):
        self.problem, self.batch = problem, batch
        self.leaves = problem.params.tensors(problem.model)
        self.terms = self._forward(self.leaves)
        self.rows = self.terms.outputs
        self._reverse: Callable[[Tensor], Tensor] | None = None

    def _forward(self, tensors: dict[str, Tensor], check: bool = True) -> Terms:
        problem, batch = self.problem, self.batch
        with self._context():
            output = problem.batches.output(call(problem.model, tensors, batch.args, batch.kwargs))
            return terms(output, batch.targets, problem.likelihood, batch.weights, check=check)

    @contextmanager
    def _context(self):
        with torch.inference_mode(False), torch.enable_grad(), kernels(self.problem.model, forward_mode=True):
            with preserved_random_state(self.problem.device):
                yield

    def jvp(self, vector: Tensor) -> Tensor:
        """J v: (P,) -> (n, C)."""
        if self._reverse is None:
            try:
                return self._dual(vector)
            except (NotImplementedError, RuntimeError) as error:
                if "forward" not in str(error) and "jvp" not in str(error):
                    raise
                self._reverse = self._double_reverse()
        return self._reverse(vector)

    def _dual(self, vector: Tensor) -> Tensor:
        tangents = self.problem.params.unflatten(vector)
        with forward_ad.dual_level(), torch.no_grad():
            duals = {
                name: forward_ad.make_dual(leaf.detach(), tangents[name].to(leaf.dtype))
                for name, leaf in self.leaves.items()
            }
            with torch.inference_mode(False), kernels(self.problem.model, forward_mode=True):
                with preserved_random_state(self.problem.device):
                    out = call(self.problem.model, duals, self.batch.args, self.batch.kwargs)
                    output = self.problem.batches.output(out)
                    rows = terms(
                        output, self.batch.targets, self.problem.likelihood, self.batch.weights, check=False
                    ).outputs
            tangent = forward_ad.unpack_dual(rows).tangent
        return torch.zeros_like(self.rows) if tangent is None else tangent

    def _double_reverse(self) -> Callable[[Tensor], Tensor]:
        """J v as the derivative of Jᵀ u in u: for operations that have no forward mode."""
        u = torch.zeros_like(self.rows, requires_grad=True)
        with torch.enable_grad():
            pulled = torch.autograd.grad(self.rows, list(self.leaves.values()), u, create_graph=True, allow_unused=True)
        kept = [(name, g) for name, g in zip(self.leaves, pulled, strict=True) if g is not None and g.requires_grad]

        def jvp(vector: Tensor) -> Tensor:
            tangents = self.problem.params.unflatten(vector)
            (found,) = torch.autograd.grad(
                [g for _, g in kept], [u], [tangents[name].to(g.dtype) for name, g in kept], retain_graph=True
            )
            return found

        return jvp

    def vjp(self, cotangent: Tensor) -> Tensor:
        """Jᵀ u: (n, C) -> (P,)."""
        leaves = list(self.leaves.values())
        found = torch.autograd.grad(self.rows, leaves, cotangent, retain_graph=True, allow_unused=True)
        return self._flat(found)

    def hessian(self) -> Callable[[Tensor], Tensor]:
        """V (P, K) -> H V for the batch's summed loss."""
        leaves = list(self.leaves.values())
        with self._context():
            nll = self.problem.likelihood.nll(self.rows, self.terms.targets)
            loss = nll.sum() if self.terms.weights is None else nll @ self.terms.weights
            gradient = torch.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
        kept = [(name, g) for name, g in zip(self.leaves, gradient, strict=True) if g is not None and g.requires_grad]

        def multiply(V: Tensor) -> Tensor:
            if not kept:
                return torch.zeros_like(V)
            tangents = self.problem.params.unflatten(V.T)
            outputs = [g for _, g in kept]
            columns = [tangents[name].to(g.dtype) for name, g in kept]
            if V.shape[1] > 1 and V.numel() < SMALL:
                found = torch.autograd.grad(
                    outputs, leaves, columns, retain_graph=True, allow_unused=True, is_grads_batched=True
                )
                return self._flat(found, V.shape[1]).T
            products = [
                torch.autograd.grad(outputs, leaves, [c[k] for c in columns], retain_graph=True, allow_unused=True)
                for k in range(V.shape[1])
            ]
            return torch.stack([self._flat(found) for found in products], 1)

        return multiply

    def _flat(self, found: tuple[Tensor | None, ...], lead: int | None = None) -> Tensor:
        shape = () if lead is None else (lead,)
        filled = [
            leaf.new_zeros(*shape, *leaf.shape) if g is None else g.detach()
            for g, leaf in zip(found, self.leaves.values(), strict=True)
        ]
        return self.problem.params.flatten(filled)
