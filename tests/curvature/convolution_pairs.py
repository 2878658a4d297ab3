"""Convolutions as Linears on explicit patches, embeddings as Linears on one-hot rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvature.pairs import Equivalence, Match, chosen, draw, draw_labels, layer, places

N, CLASSES = 4, 3


def patches(x: Tensor, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Tensor:
    """(N, T, channels * kernel) from a padded input (N, channels, *space), by slicing."""
    for axis, (k, s, d) in enumerate(zip(kernel, stride, dilation, strict=True), start=2):
        reach = d * (k - 1) + 1
        x = x.unfold(axis, reach, s)[..., ::d]
    spatial = len(kernel)
    x = x.permute(0, *range(2, 2 + spatial), 1, *range(2 + spatial, 2 + 2 * spatial))
    return x.flatten(1, spatial).flatten(2)


def zeros_between(x: Tensor, stride: Sequence[int]) -> Tensor:
    """Inserts stride - 1 zeros between neighbours along every spatial axis."""
    for axis, s in enumerate(stride, start=2):
        apart = torch.stack([x, *[torch.zeros_like(x)] * (s - 1)], axis + 1).flatten(axis, axis + 1)
        x = apart.narrow(axis, 0, s * (x.shape[axis] - 1) + 1)
    return x


class Convolved(nn.Module):
    """A convolution, tanh, and a Linear on everything."""

    def __init__(self, conv: nn.Module, width: int) -> None:
        super().__init__()
        self.conv, self.head = conv, nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.conv(x)).flatten(1))


class Patched(nn.Module):
    """The same with one Linear per group on patches that are made by hand."""

    def __init__(self, conv, width: int) -> None:
        super().__init__()
        inside, outside = conv.in_channels // conv.groups, conv.out_channels // conv.groups
        rows = inside * torch.Size(conv.kernel_size).numel()
        self.parts = nn.ModuleList(nn.Linear(rows, outside, bias=conv.bias is not None) for _ in range(conv.groups))
        self.head, self.options = nn.Linear(width, CLASSES), conv.__dict__.copy()

    def forward(self, x: Tensor) -> Tensor:
        o = self.options
        if o["transposed"]:
            padded, stride = self.widened(x), [1] * len(o["stride"])
        else:
            mode = "constant" if o["padding_mode"] == "zeros" else o["padding_mode"]
            padded, stride = F.pad(x, o["_reversed_padding_repeated_twice"], mode=mode), o["stride"]
        cut = [patches(part, o["kernel_size"], stride, o["dilation"]) for part in padded.chunk(o["groups"], 1)]
        z = torch.cat([part(rows) for part, rows in zip(self.parts, cut, strict=True)], 2)
        return self.head(torch.tanh(z).mT.flatten(1))

    def widened(self, x: Tensor) -> Tensor:
        """The input of a transposed convolution with zeros between and around."""
        o, around = self.options, []
        for k, d, p, extra in zip(o["kernel_size"], o["dilation"], o["padding"], o["output_padding"], strict=True):
            around = [d * (k - 1) - p, d * (k - 1) - p + extra, *around]
        return F.pad(zeros_between(x, o["stride"]), around)


def group_matches(conv) -> tuple[Match, ...]:
    """Which elements of a convolution's weight and bias each group's Linear holds."""
    shapes = [tuple(conv.weight.shape)] + ([(conv.out_channels,)] if conv.bias is not None else [])
    weight, *bias = places(*shapes)
    names = ("conv.weight", "conv.bias")[: len(shapes)]
    found = []
    for group in range(conv.groups):
        if conv.transposed:  # (in, out / groups, *kernel): swap the channels, turn the kernel round
            part = weight.chunk(conv.groups)[group].transpose(0, 1).flip(tuple(range(2, weight.ndim)))
        else:
            part = weight.chunk(conv.groups)[group]
        index = chosen(part, *[b.chunk(conv.groups)[group] for b in bias])
        right = tuple(f"parts.{group}.{end}" for end in ("weight", "bias")[: len(shapes)])
        found.append(Match(names, right, index))
    return tuple(found)


def convolution(name: str, make: Callable[[], nn.Module], *shape: int) -> Equivalence:
    """A convolution against Linears on its patches."""
    with torch.random.fork_rng(devices=[]):
        sample = make()
        width = sample(torch.zeros(1, *shape)).numel()
    return Equivalence(
        name,
        lambda: Convolved(make(), width),
        lambda: Patched(make(), width),
        (*group_matches(sample), layer("head")),
        (draw(N, *shape),),
        draw_labels(CLASSES, N),
    )


class Looked(nn.Module):
    """An embedding, or a Linear on one-hot rows, then tanh and a Linear."""

    def __init__(self, table: nn.Module) -> None:
        super().__init__()
        self.table, self.head = table, nn.Linear(6, CLASSES)

    def forward(self, rows: Tensor) -> Tensor:
        return self.head(torch.tanh(self.table(rows)).flatten(1))


def embedding() -> Equivalence:
    """An embedding (5, 3) is a Linear without bias on one-hot rows, its weight transposed."""
    tokens = draw_labels(5, N, 2, seed=3)
    (table,) = places((5, 3))
    return Equivalence(
        "embedding_one_hot",
        lambda: Looked(nn.Embedding(5, 3)),
        lambda: Looked(nn.Linear(5, 3, bias=False)),
        (Match(("table.weight",), ("table.weight",), chosen(table.T)), layer("head")),
        (tokens,),
        draw_labels(CLASSES, N),
        right_inputs=(F.one_hot(tokens, 5).double(),),
    )


def _padded(mode: str) -> Equivalence:
    return convolution(f"conv2d_{mode}", lambda: nn.Conv2d(2, 2, 3, padding=(1, 2), padding_mode=mode), 2, 4, 3)


PAIRS: list[Equivalence] = [
    convolution("conv1d", lambda: nn.Conv1d(2, 3, 3), 2, 6),
    convolution("conv2d", lambda: nn.Conv2d(2, 3, (3, 2)), 2, 4, 3),
    convolution("conv3d", lambda: nn.Conv3d(2, 2, 2), 2, 3, 2, 3),
    convolution("conv2d_no_bias", lambda: nn.Conv2d(2, 3, 2, bias=False), 2, 3, 3),
    convolution("conv1d_strided", lambda: nn.Conv1d(2, 3, 3, stride=2, padding=1, dilation=2), 2, 8),
    convolution("conv2d_strided", lambda: nn.Conv2d(2, 2, (3, 2), (2, 1), (1, 0), (1, 2)), 2, 5, 4),
    convolution("conv3d_strided", lambda: nn.Conv3d(1, 2, 2, (1, 2, 1), (1, 0, 1), (2, 1, 1)), 1, 3, 4, 2),
    convolution("conv2d_pointwise", lambda: nn.Conv2d(3, 2, 1), 3, 2, 2),
    *[_padded(mode) for mode in ("zeros", "reflect", "replicate", "circular")],
    convolution("conv2d_same", lambda: nn.Conv2d(2, 2, (3, 2), padding="same", dilation=(1, 2)), 2, 4, 3),
    convolution("conv1d_grouped", lambda: nn.Conv1d(4, 4, 3, stride=2, groups=2), 4, 5),
    convolution("conv2d_grouped", lambda: nn.Conv2d(4, 6, 2, padding=1, groups=2), 4, 2, 3),
    convolution("conv2d_depthwise", lambda: nn.Conv2d(3, 3, 2, groups=3), 3, 3, 3),
    convolution("conv2d_depthwise_wide", lambda: nn.Conv2d(2, 4, 2, groups=2, bias=False), 2, 3, 3),
    convolution("conv3d_grouped", lambda: nn.Conv3d(2, 2, 2, groups=2), 2, 2, 3, 2),
    convolution("conv_transpose1d", lambda: nn.ConvTranspose1d(2, 3, 3, 2, 1, 1), 2, 4),
    convolution("conv_transpose2d", lambda: nn.ConvTranspose2d(2, 2, (3, 2), (1, 2), (1, 0)), 2, 3, 2),
    convolution("conv_transpose3d", lambda: nn.ConvTranspose3d(2, 2, 2), 2, 2, 1, 2),
    convolution("conv_transpose2d_no_bias", lambda: nn.ConvTranspose2d(2, 3, 2, bias=False), 2, 2, 2),
    convolution("conv_transpose2d_grouped",
                lambda: nn.ConvTranspose2d(2, 4, 2, (2, 3), (1, 2), (1, 0), 2, dilation=(1, 2)), 2, 2, 2),
    embedding(),
]  # fmt: skip
