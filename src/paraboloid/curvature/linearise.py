"""One batch linearised: J v by forward mode, Jᵀ u and H v by reverse mode. No layer rule is needed.

Where forward mode does not exist, or is not the transpose of reverse mode (an Embedding's padding row, a user's own
function), J v is the derivative of Jᵀ u in u; where that does not exist either, J is asked for row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from functools import cached_property

import torch
import torch.autograd.forward_ad as forward_ad
from torch import Tensor

from paraboloid.curvature.capture import mark
from paraboloid.curvature.graph import LEAF, UncoveredError, is_users, kind, padding_of, refuse_opaque, topological
from paraboloid.curvature.problem import Problem
from paraboloid.curvature.refusals import require_finite, require_finite_rows, require_graph, tensors_in
from paraboloid.spaces.batches import Batch
from paraboloid.spaces.functional import PlainWeightNorm, call, kernels
from paraboloid.spaces.params import Params
from paraboloid.spaces.randomness import without_draws
from paraboloid.spaces.terms import Terms, terms

WRONG_TWICE = frozenset({"WeightNormInterface"})  # nodes whose second derivative PyTorch gets wrong
SLOW_TWICE = frozenset({"Convolution", "NativeBatchNorm", "CudnnBatchNorm"})  # forward mode is faster than a kept graph
Jvp = Callable[[Tensor], Tensor]


class Linearised:
    """A batch's terms as a differentiable function of the chosen parameters."""

    def __init__(self, problem: Problem, batch: Batch, *, twice: bool = False):
        self.problem, self.batch = problem, batch
        self.leaves = problem.leaves()
        require_finite(tensors_in((batch.args, batch.kwargs)), "the inputs hold NaN or inf; clean the data first")
        self.plain = False
        self.terms = self._forward()
        nodes = topological(self.rows.grad_fn)
        met = {id(node.variable) for node in nodes if node.name() == LEAF}
        self.reached = frozenset(name for name, leaf in self.leaves.items() if id(leaf) in met)
        refuse_opaque(nodes)
        if twice and any(kind(node) in WRONG_TWICE for node in nodes):
            self.plain = True
            self.terms = self._forward()
        suspect = any(is_users(node) or (kind(node) == "Embedding" and padding_of(node) >= 0) for node in nodes)
        self._products = 0
        self._cheap_twice = not any(kind(node) in SLOW_TWICE for node in nodes)
        self._jvp: Jvp | None = self._first_road(self._double_reverse, self._row_by_row) if suspect else None

    @property
    def rows(self) -> Tensor:
        return self.terms.outputs

    def _forward(self) -> Terms:
        with self._context(), torch.enable_grad():
            # marked, so that a block that hides its steps (a reentrant checkpoint) shows in the graph
            marked = Batch(
                mark(self.batch.args, []), mark(self.batch.kwargs, []), self.batch.targets, self.batch.weights
            )
            found = self._terms(self.leaves, marked, check=True)
            require_finite_rows(found.outputs, self.problem, self.batch)
            require_graph(found.outputs)
        return found

    def _terms(self, tensors: dict[str, Tensor], batch: Batch, check: bool) -> Terms:
        problem = self.problem
        output = problem.batches.output(call(problem.model, tensors, batch.args, batch.kwargs))
        return terms(output, batch.targets, problem.likelihood, batch.weights, check=check)

    @contextmanager
    def _context(self):
        """Kernels that can be differentiated twice, and the user's random state as it was."""
        with ExitStack() as stack:
            stack.enter_context(torch.inference_mode(False))
            stack.enter_context(kernels(self.problem.model, forward_mode=True))
            stack.enter_context(without_draws(self.problem.device))
            if self.plain:
                stack.enter_context(PlainWeightNorm())
            yield

    # ------------------------------------------------------------------ J v
    def jvp(self, vector: Tensor) -> Tensor:
        """J v: (P,) -> (n, C)."""
        self._products += 1
        if self._products == 2 and self._jvp is None and self._cheap_twice:
            self._jvp = self._first_road(self._double_reverse, lambda: self._dual)
        if self._jvp is None:
            try:
                return self._dual(vector)
            except RuntimeError as error:  # NotImplementedError is one
                if "forward" not in str(error) and "jvp" not in str(error):
                    raise
                self._jvp = self._first_road(self._double_reverse, self._row_by_row)
        return self._jvp(vector)

    def _dual(self, vector: Tensor) -> Tensor:
        """By dual numbers, without a graph."""
        tangents = self.problem.params.unflatten(vector)
        with forward_ad.dual_level(), self._context(), torch.no_grad():
            duals = {
                name: forward_ad.make_dual(leaf.detach(), tangents[name].to(leaf.dtype))
                for name, leaf in self.leaves.items()
            }
            tangent = forward_ad.unpack_dual(self._terms(duals, self.batch, check=False).outputs).tangent
        return torch.zeros_like(self.rows) if tangent is None else tangent

    @staticmethod
    def _first_road(*roads: Callable[[], Jvp]) -> Jvp:
        """The first that this graph can go."""
        for road in roads[:-1]:
            try:
                return road()
            except RuntimeError:  # an operation without a second derivative
                continue
        return roads[-1]()

    def _double_reverse(self) -> Jvp:
        """J v as the derivative of Jᵀ u in u."""
        u = torch.zeros_like(self.rows, requires_grad=True)
        with torch.enable_grad():
            pulled = torch.autograd.grad(self.rows, list(self.leaves.values()), u, create_graph=True, allow_unused=True)
        kept = [(name, g) for name, g in zip(self.leaves, pulled, strict=True) if g is not None and g.requires_grad]
        params = self.problem.params  # not self: a cycle would hold the graph until garbage is collected

        def jvp(vector: Tensor) -> Tensor:
            tangents = params.unflatten(vector)
            outputs, cotangents = [g for _, g in kept], [tangents[name].to(g.dtype) for name, g in kept]
            return torch.autograd.grad(outputs, [u], cotangents, retain_graph=True)[0]

        self._require_transposed(jvp)
        return jvp

    def _require_transposed(self, jvp: Jvp) -> None:
        """uᵀ(J v) = (Jᵀ u)ᵀ v at ones: a function that is not linear in its gradient, or breaks the graph, is not."""
        u = torch.ones_like(self.rows)
        pulled = self.vjp(u)
        v = torch.ones_like(pulled)
        one, other, size = (u * jvp(v)).sum(), pulled.sum(), pulled.abs().sum()
        if float((one - other).abs()) > 1e3 * torch.finfo(u.dtype).eps * max(float(size), 1e-30):
            raise RuntimeError("the second derivative of the backward pass is not the forward derivative")

    def _row_by_row(self) -> Jvp:
        """J v from one backward for each output: slow, and exact for whatever autograd can differentiate once."""

        rows, leaves, params = self.rows, self.leaves, self.problem.params

        def jvp(vector: Tensor) -> Tensor:
            found = torch.zeros_like(rows).reshape(-1)
            for place in range(found.numel()):
                unit = torch.zeros_like(found)
                unit[place] = 1
                found[place] = _pulled(rows, leaves, params, unit.view_as(rows)).to(vector.dtype) @ vector
            return found.view_as(rows)

        return jvp

    # ------------------------------------------------------------------ Jᵀ u and H v
    def vjp(self, cotangent: Tensor) -> Tensor:
        """Jᵀ u: (n, C) -> (P,)."""
        return _pulled(self.rows, self.leaves, self.problem.params, cotangent)

    def hessian(self, vector: Tensor) -> Tensor:
        """H v for the batch's summed loss: (P,) -> (P,)."""
        if not self._gradient:
            return torch.zeros_like(vector)
        tangents = self.problem.params.unflatten(vector)
        outputs, cotangents = [g for _, g in self._gradient], [tangents[name].to(g.dtype) for name, g in self._gradient]
        leaves = list(self.leaves.values())
        try:
            found = torch.autograd.grad(outputs, leaves, cotangents, retain_graph=True, allow_unused=True)
        except RuntimeError as error:
            raise self._no_second_derivative(error) from error
        return _flat(found, self.leaves, self.problem.params).to(vector.dtype)

    @cached_property
    def _gradient(self) -> list[tuple[str, Tensor]]:
        """The gradient of the summed loss with its graph, made once, where it depends on the parameters."""
        with self._context(), torch.enable_grad():
            nll = self.problem.likelihood.nll(self.rows, self.terms.targets)
            loss = nll.sum() if self.terms.weights is None else nll @ self.terms.weights
            leaves = list(self.leaves.values())
            gradient = torch.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
        return [(name, g) for name, g in zip(self.leaves, gradient, strict=True) if g is not None and g.requires_grad]

    def _no_second_derivative(self, error: RuntimeError) -> UncoveredError:
        """The refusal, with the parameters that the operation without a second derivative stands between."""
        blocked = []
        for name, leaf in self.leaves.items():
            with torch.enable_grad():
                (g,) = torch.autograd.grad(self.rows.square().sum(), [leaf], create_graph=True, allow_unused=True)
            try:
                if g is not None and g.requires_grad:
                    torch.autograd.grad(g.sum(), [leaf], retain_graph=True, allow_unused=True)
            except RuntimeError:
                blocked.append(repr(name))
        return UncoveredError(
            f"The Hessian needs second derivatives, and PyTorch has none on the way to {', '.join(blocked)}: "
            f"{str(error).splitlines()[0]} Use kind='ggn', or leave these parameters out by params=."
        )


def _pulled(rows: Tensor, leaves: dict[str, Tensor], params: Params, cotangent: Tensor) -> Tensor:
    """Jᵀ u as one flat vector."""
    found = torch.autograd.grad(rows, list(leaves.values()), cotangent, retain_graph=True, allow_unused=True)
    return _flat(found, leaves, params)


def _flat(found: tuple[Tensor | None, ...], leaves: dict[str, Tensor], params: Params) -> Tensor:
    filled = [
        torch.zeros_like(leaf) if g is None else g.detach() for g, leaf in zip(found, leaves.values(), strict=True)
    ]
    return params.flatten(filled)
