"""What is asked: a model, some of its parameters, a likelihood, and data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from paraboloid.spaces.batches import Batches
from paraboloid.spaces.likelihood import Likelihood
from paraboloid.spaces.params import Params


@dataclass(frozen=True)
class Problem:
    """What curvature is asked of: a model, some of its parameters, a likelihood, and how to read its data."""

    model: nn.Module
    params: Params
    likelihood: Likelihood
    batches: Batches
    joint: bool = True

    @property
    def device(self) -> torch.device:
        return next(iter(self.params.tensors(self.model).values())).device

    def leaves(self) -> dict[str, Tensor]:
        """The chosen parameters; one with hooks, which may clip or mask its gradient, as an alias without them."""
        live = self.params.tensors(self.model)
        return {n: t.detach().requires_grad_() if getattr(t, "_backward_hooks", None) else t for n, t in live.items()}

    def replaced(self, leaves: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Those of the leaves that are not the model's own."""
        live = self.params.tensors(self.model)
        return {name: leaf for name, leaf in leaves.items() if leaf is not live[name]}

    @property
    def dtype(self) -> torch.dtype:
        """What sums and operators are kept in: double if any parameter is, else single precision."""
        dtypes = {tensor.dtype for tensor in self.params.tensors(self.model).values()}
        return torch.float64 if torch.float64 in dtypes else torch.float32
