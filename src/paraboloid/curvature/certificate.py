"""The certificate: what the rules say about a random half of the examples is what autograd says.

For a random cotangent v the gradients of the examples in a random half, put through the rules and summed, must
equal autograd's gradient for v masked to that half. This catches a missed use, a wrong layout, a renamed
attribute in another version of PyTorch, and a wrong owner.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from paraboloid.curvature.capture import BoundBlock, Capture, remembered
from paraboloid.curvature.graph import UncoveredError
from paraboloid.spaces.randomness import default_generator

_CERTIFICATES: OrderedDict[tuple, Certificate] = OrderedDict()
LOOSEST = 0.1  # a use or an owner that is wrong shows beside the rounding of half precision too
EPSILONS = 2000.0  # rounding of long sums, in units of the working type's epsilon


@dataclass(frozen=True)
class Certificate:
    """Largest deviation of the rules from autograd for each parameter, relative to its contributions' norms.

    >>> Certificate({"weight": 1e-16}, 1e-12).passed
    True
    """

    deviations: dict[str, float]
    tolerance: float

    @property
    def worst(self) -> float:
        return max(self.deviations.values(), default=0.0)

    def __repr__(self) -> str:
        name = max(self.deviations, key=lambda key: self.deviations[key], default="nothing")
        verdict = "passed" if self.passed else "failed"
        return f"Certificate({verdict}, worst {self.worst:.1e} at {name!r}, tolerance {self.tolerance:.1e})"

    def worse(self, other: Certificate) -> Certificate:
        """The larger deviation of both for every parameter."""
        deviations = {name: max(self.deviations[name], other.deviations[name]) for name in self.deviations}
        return Certificate(deviations, max(self.tolerance, other.tolerance))

    @property
    def passed(self) -> bool:
        return self.worst <= self.tolerance


def certified(capture: Capture, bound: Sequence[BoundBlock]) -> Certificate:
    """The certificate of the batch's layout: asked for once, then remembered with it.

    What it can catch depends on the walk alone where nothing else can decide who owns what; other layouts are not
    remembered, and neither are their certificates.
    """
    return remembered(_CERTIFICATES, capture.key, lambda: (certify(capture, bound), True))


def certify(capture: Capture, bound: Sequence[BoundBlock], generator: torch.Generator | None = None) -> Certificate:
    """Compare the rules with autograd on one batch; raises with the parameter's name where they differ."""
    rows = capture.rows
    generator = generator or default_generator(rows.device)
    cotangent = torch.randn(rows.shape, generator=generator, dtype=rows.dtype, device=rows.device)
    half = torch.zeros(capture.examples, dtype=rows.dtype, device=rows.device)
    chosen = torch.randperm(capture.examples, generator=generator, device=rows.device)
    half[chosen[: (capture.examples + 1) // 2]] = 1
    ours, sizes = _by_rules(capture, bound, cotangent, half)
    leaves = list(capture.tensors.values())
    masked = cotangent * half[capture.terms.example][:, None]
    true = torch.autograd.grad(rows, leaves, masked, retain_graph=True, allow_unused=True)
    params = capture.problem.params
    theirs = params.flatten([torch.zeros_like(t) if g is None else g for g, t in zip(true, leaves, strict=True)])
    worked_in = {meta.dtype for node in capture.nodes for meta in node._input_metadata}  # half of it under autocast
    epsilon = max(torch.finfo(dtype).eps for dtype in {t.dtype for t in leaves} | worked_in if dtype.is_floating_point)
    deviations = {}
    for name, piece in params.slices.items():
        size = max(float(sizes[piece].norm()), float(theirs[piece].norm()))  # no alarm where sums cancel
        gap = float((ours[piece] - theirs[piece]).norm())
        deviations[name] = gap / size if size > 0 else 0.0
    found = Certificate(deviations, min(EPSILONS * epsilon, LOOSEST))
    _require(found)
    return found


def _by_rules(capture: Capture, bound: Sequence[BoundBlock], cotangent: Tensor, half: Tensor) -> tuple[Tensor, Tensor]:
    """Sum over uses of the chosen examples' gradients, and what it would be if positions did not cancel."""
    stacks = capture.gradients([cotangent])
    total = cotangent.new_zeros(capture.problem.params.numel)
    sizes = torch.zeros_like(total)
    for block in bound:
        for (part, swapped), use in zip(block.parts, block.uses, strict=True):
            for sums, stack in ((total, stacks[use]), (sizes, [g.abs() for g in stacks[use]])):
                found = part.total(stack, half)
                found = (found.T if swapped else found).reshape(-1).to(total.dtype)
                sums.index_add_(0, block.block.positions, found if sums is total else found.abs())
    return total, sizes


def _require(found: Certificate) -> None:
    if found.passed:
        return
    name = max(found.deviations, key=lambda key: found.deviations[key])
    raise UncoveredError(
        f"The rules do not reproduce autograd's gradient of {name!r}: relative deviation {found.deviations[name]:.1e}, "
        f"allowed {found.tolerance:.1e}. Its curvature would be wrong, so none is returned. Exclude it with params=, "
        "or use structure='products', which needs no rules."
    )
