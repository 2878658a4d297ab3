"""Zoo: convolutions of every kind, and the networks made of them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from case_record import Case, case, headed, labels, labels_with_gaps, reals


def single(layer: nn.Module, *shape: int) -> nn.Module:
    """One layer, an activation, a head."""
    return headed(nn.Sequential(layer, nn.Tanh()), shape)


def lenet(pool: type[nn.Module]) -> nn.Module:
    """Two convolutions with pooling, two dense layers."""
    body = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), pool(2), nn.Conv2d(2, 3, 2), nn.ReLU(), nn.Flatten())
    return headed(nn.Sequential(body, nn.Linear(12, 5), nn.ReLU()), (1, 6, 6))


def in_place() -> nn.Module:
    """In-place ReLU after every convolution and after a normalisation."""
    return headed(
        nn.Sequential(
            nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(inplace=True),
            nn.Conv2d(3, 3, 3, padding=1, stride=2), nn.BatchNorm2d(3), nn.ReLU(inplace=True),
            nn.Conv2d(3, 2, 1), nn.ReLU(inplace=True),
        ),
        (2, 4, 4),
    )  # fmt: skip


class ResidualConvolution(nn.Module):
    """Residual sum of a convolution branch and a strided shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 3, 3, 2, 1), nn.Conv2d(3, 3, 3, padding=1)
        self.shortcut, self.head = nn.Conv2d(2, 3, 1, 2, bias=False), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        branch = self.second(torch.tanh(self.first(x)))
        return self.head(torch.tanh(branch + self.shortcut(x)).mean((2, 3)))


class SqueezeExcite(nn.Module):
    """Channels scaled by a gate computed from their means."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.down, self.up, self.head = nn.Linear(4, 2), nn.Linear(2, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.conv(x))
        gate = torch.sigmoid(self.up(F.relu(self.down(x.mean((2, 3))))))
        return self.head((x * gate[:, :, None, None]).amax((2, 3)))


class UNet(nn.Module):
    """Down, up by a transposed convolution, skip by concatenation, pixel outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.middle = nn.Conv2d(1, 2, 3, padding=1), nn.Conv2d(2, 3, 3, padding=1)
        self.up, self.out = nn.ConvTranspose2d(3, 2, 2, stride=2), nn.Conv2d(4, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        skip = torch.tanh(self.down(x))
        low = torch.tanh(self.middle(F.avg_pool2d(skip, 2)))
        return self.out(torch.cat([skip, torch.tanh(self.up(low))], 1))


class Separable(nn.Module):
    """Depthwise convolution with a channel multiplier, then pointwise, without biases."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = nn.Conv2d(2, 4, 3, padding=1, groups=2, bias=False)
        self.point, self.head = nn.Conv2d(4, 3, 1, bias=False), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.point(torch.tanh(self.depth(x)))).mean((2, 3)))


def pixels() -> nn.Module:
    """Convolutions to class scores for every pixel."""
    return nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.Tanh(), nn.Conv2d(3, 3, 3, padding=1))


CLASS = labels(3)
LINE, IMAGE, VOLUME = reals(2, 6), reals(2, 5, 4), reals(2, 3, 4, 3)


def _line(name: str, make, size: int = 4) -> Case:
    return case(name, lambda: single(make(), 2, 6), LINE, target=CLASS, size=size)


def _image(name: str, make, size: int = 4) -> Case:
    return case(name, lambda: single(make(), 2, 5, 4), IMAGE, target=CLASS, size=size)


def _volume(name: str, make, size: int = 3) -> Case:
    return case(name, lambda: single(make(), 2, 3, 4, 3), VOLUME, target=CLASS, size=size)


def _padded(mode: str) -> Case:
    return _image(f"conv2d_{mode}", lambda: nn.Conv2d(2, 2, 3, padding=(1, 2), padding_mode=mode), 3)


CONVOLUTIONS: list[Case] = [
    _line("conv1d", lambda: nn.Conv1d(2, 3, 3), 5),
    _image("conv2d", lambda: nn.Conv2d(2, 3, (3, 2))),
    _volume("conv3d", lambda: nn.Conv3d(2, 2, 2)),
    _image("conv2d_no_bias", lambda: nn.Conv2d(2, 3, 2, bias=False), 5),
    _line("conv1d_strided", lambda: nn.Conv1d(2, 3, 3, stride=2, padding=2)),
    _image("conv2d_strided", lambda: nn.Conv2d(2, 3, 3, stride=(2, 3), padding=1)),
    _image("conv2d_dilated", lambda: nn.Conv2d(2, 2, 2, stride=(1, 2), dilation=(2, 3), padding=(0, 1))),
    _volume("conv3d_strided", lambda: nn.Conv3d(2, 2, (2, 3, 1), stride=(1, 2, 2), padding=(1, 0, 1))),
    *[_padded(mode) for mode in ("zeros", "reflect", "replicate", "circular")],
    _image("conv2d_same", lambda: nn.Conv2d(2, 2, (3, 2), padding="same", dilation=(1, 2))),
    _line("conv1d_reflect_same", lambda: nn.Conv1d(2, 2, 4, padding="same", padding_mode="reflect")),
    _image("conv2d_grouped", lambda: nn.Conv2d(2, 4, 3, stride=2, padding=1, groups=2)),
    _volume("conv3d_grouped", lambda: nn.Conv3d(2, 2, 2, groups=2)),
    _image("conv2d_depthwise", lambda: nn.Conv2d(2, 2, 3, padding=1, groups=2), 5),
    _line("conv_transpose1d", lambda: nn.ConvTranspose1d(2, 3, 3, stride=2, padding=1)),
    _image("conv_transpose2d", lambda: nn.ConvTranspose2d(2, 2, (3, 2), padding=(1, 0)), 3),
    case("conv_transpose3d", lambda: single(nn.ConvTranspose3d(2, 2, 2), 2, 2, 2, 2), reals(2, 2, 2, 2),
         target=CLASS, size=3),
    case("conv_transpose2d_grouped",
         lambda: single(nn.ConvTranspose2d(2, 4, 2, (2, 3), (1, 2), (1, 0), 2, dilation=(1, 2)), 2, 2, 2),
         reals(2, 2, 2), target=CLASS, size=3),
    case("lenet_max", lambda: lenet(nn.MaxPool2d), reals(1, 6, 6), target=CLASS, size=4),
    case("lenet_mean", lambda: lenet(nn.AvgPool2d), reals(1, 6, 6), target=CLASS, size=5),
    case("in_place_relu", in_place, reals(2, 4, 4), target=CLASS, size=4),
    case("residual_convolution", ResidualConvolution, IMAGE, target=CLASS, size=4),
    case("separable", Separable, IMAGE, target=CLASS, size=5),
    case("squeeze_excite", SqueezeExcite, IMAGE, target=CLASS, size=4),
    case("u_net", UNet, reals(1, 4, 2), target=labels(3, 4, 2), terms="pixels", size=3),
    case("pixels_ignored", pixels, reals(1, 4, 2), target=labels_with_gaps(3, 4, 2), terms="pixels", size=3),
]  # fmt: skip
