"""Zoo: dense networks with every likelihood, normalisations, embeddings, activations with parameters."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from case_record import Case, bits, case, counts, headed, labels, reals


def mlp(*widths: int, activation: type[nn.Module] = nn.Tanh, bias: bool = True) -> nn.Sequential:
    """Linear layers with an activation between them."""
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after, bias=bias), activation()]
    return nn.Sequential(*layers[:-1])


class Scalar(nn.Module):
    """A network with outputs of shape (N,)."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(3, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x).squeeze(-1)


class NaturalGaussian(nn.Module):
    """Outputs (η1, η2) with η2 = -softplus(·) - 0.1 < 0."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(3, 4, 2)

    def forward(self, x: Tensor) -> Tensor:
        first, second = self.net(x).unbind(-1)
        return torch.stack([first, -F.softplus(second) - 0.1], -1)


class Residual(nn.Module):
    """A residual block with an activation inside, a scale-free skip, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer, self.head = nn.Linear(4, 5), nn.Linear(5, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(x + self.outer(F.silu(self.inner(x)))))


class Bilinear(nn.Module):
    """nn.Bilinear on two different inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.pair, self.head = nn.Bilinear(3, 2, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.head(torch.tanh(self.pair(x, y)))


class Embedded(nn.Module):
    """Token embeddings, flattened, and a small network."""

    def __init__(self, **options) -> None:
        super().__init__()
        self.table, self.net = nn.Embedding(6, 3, **options), mlp(9, 4, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.net(torch.tanh(self.table(tokens)).flatten(1))


class Bag(nn.Module):
    """A mean of embeddings (nn.EmbeddingBag)."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.EmbeddingBag(6, 3, mode="mean"), nn.Linear(3, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(torch.tanh(self.table(tokens)))


class Positions(nn.Module):
    """A Linear on inputs with two leading axes, then a mean over the second one."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(3, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.inner(x)).mean((1, 2)))


def normalised(norm: nn.Module, *shape: int) -> nn.Module:
    """Linear (vectors) or convolution (images), a normalisation with an activation, and a head."""
    if len(shape) == 1:
        return nn.Sequential(nn.Linear(4, shape[0]), norm, nn.Tanh(), nn.Linear(shape[0], 3))
    convolution = {2: nn.Conv1d, 3: nn.Conv2d}[len(shape)]
    first = convolution(2, shape[0], 3, padding=1)
    return headed(nn.Sequential(first, norm, nn.Tanh()), (2, *shape[1:]))


X4 = reals(4)
CLASS = labels(3)
IMAGE = reals(2, 4, 3)
LINE = reals(2, 5)

DENSE: list[Case] = [
    case("mlp", lambda: mlp(4, 5, 3), X4, target=CLASS, size=5),
    case("mlp_relu", lambda: mlp(4, 6, 5, 3, activation=nn.ReLU), X4, target=CLASS, size=6),
    case("mlp_no_bias", lambda: mlp(4, 5, 4, 3, bias=False), X4, target=CLASS, size=3),
    case("mlp_two_classes", lambda: mlp(4, 5, 2), X4, target=labels(2), size=4),
    case("mlp_gaussian", lambda: mlp(4, 5, 2), X4, target=reals(2), likelihood="gaussian", size=5),
    case("mlp_mse", lambda: mlp(4, 5, 3), X4, target=reals(3), likelihood="mse", size=4),
    case("mlp_scalar", Scalar, reals(3), target=reals(), likelihood="gaussian", size=6),
    case("mlp_bernoulli", lambda: mlp(4, 5, 3), X4, target=bits(3), likelihood="bernoulli", size=5),
    case("mlp_poisson", lambda: mlp(4, 5, 2), X4, target=counts(2), likelihood="poisson", size=4),
    case("mlp_natural", NaturalGaussian, reals(3), target=reals(1), likelihood="heteroscedastic", size=5),
    case("mlp_prelu", lambda: nn.Sequential(nn.Linear(4, 5), nn.PReLU(5), nn.Linear(5, 3), nn.PReLU()), X4,
         target=CLASS, size=5),
    case("residual", Residual, X4, target=CLASS, size=4),
    case("bilinear", Bilinear, reals(3), reals(2), target=CLASS, size=4),
    case("linear_many_axes", Positions, reals(2, 4, 3), target=CLASS, size=3),
    case("linear_tokens", lambda: mlp(4, 5, 3), reals(2, 4), target=labels(3, 2), terms="tokens", size=4),
    case("embedding", Embedded, labels(6, 3), target=CLASS, size=6),
    case("embedding_padding", lambda: Embedded(padding_idx=1), labels(4, 3), target=CLASS, size=6,
         covered={"padding": ("table.weight", 1)}),
    case("embedding_bag", Bag, labels(6, 3), target=CLASS, size=5, covered={"second_order": False}),
]  # fmt: skip

NORMS: list[Case] = [
    case("layer_norm", lambda: normalised(nn.LayerNorm(5), 5), X4, target=CLASS, size=5),
    case("layer_norm_images", lambda: normalised(nn.LayerNorm((3, 4, 3)), 3, 4, 3), IMAGE, target=CLASS),
    case("group_norm", lambda: normalised(nn.GroupNorm(2, 4), 4, 4, 3), IMAGE, target=CLASS, size=3),
    case("rms_norm", lambda: normalised(nn.RMSNorm(5), 5), X4, target=CLASS, size=5),
    case("batch_norm_1d", lambda: normalised(nn.BatchNorm1d(5), 5), X4, target=CLASS, size=5),
    case("batch_norm_lines", lambda: normalised(nn.BatchNorm1d(3), 3, 5), LINE, target=CLASS, size=4),
    case("batch_norm_2d", lambda: normalised(nn.BatchNorm2d(3), 3, 4, 3), IMAGE, target=CLASS, size=4),
    case("instance_norm_1d", lambda: normalised(nn.InstanceNorm1d(3, affine=True), 3, 5), LINE, target=CLASS),
    case("instance_norm_2d", lambda: normalised(nn.InstanceNorm2d(3, affine=True), 3, 4, 3), IMAGE,
         target=CLASS, size=3),
]  # fmt: skip
