"""Data that are computed: a toy regression, a noisy Griewank function, logistic regression, random projections.

They are drawn on the CPU and then moved, so a generator gives the same numbers for every device. Without a generator,
each function uses a private one of seed 0.
"""

from __future__ import annotations

import torch
from torch import Tensor

from paraboloid.datasets.images import DIGITS, mnist
from paraboloid.datasets.record import Dataset, Device, Split, dataset, intensities
from paraboloid.spaces.randomness import as_generator

GRIEWANK_BOX = ((-7.5, -5.0), (-2.5, 15.0))


def toy_cubic(*, num: int = 20, generator: torch.Generator | None = None, device: Device = "cpu") -> Dataset:
    """y = x³ + noise of sd 3, x uniform on [−4, 4]: `num` training and `num` validation points. The test part is the
    noiseless function at 241 places from −6 to 6, what the thesis's figure draws.

    >>> data = toy_cubic()
    >>> data.train.x.shape, len(data.validation), data.test.x[0].item(), data.test.y[0].item()
    (torch.Size([20, 1]), 20, -6.0, -216.0)
    """
    generator = as_generator(generator, "cpu")

    def noisy() -> Split:
        x = 8 * torch.rand(num, 1, dtype=torch.float64, generator=generator) - 4
        return Split(x.float(), (x**3 + 3 * torch.randn(num, 1, dtype=torch.float64, generator=generator)).float())

    train, validation = noisy(), noisy()
    grid = torch.linspace(-6, 6, 241, dtype=torch.float64)[:, None]
    test = Split(grid.float(), (grid**3).float())
    note = f"simulated: {num} training and {num} validation points; the test part is the function itself on a grid"
    return dataset("toy_cubic", train, test, validation, note=note, normalise_targets=True, device=device)


def griewank_function(x: Tensor) -> Tensor:
    """1 + |x|²/4000 − cos(x₁) cos(x₂/√2) of points (n, 2), as (n,).

    >>> griewank_function(torch.zeros(1, 2)).item()
    0.0
    """
    waves = x[:, 0].cos() * (x[:, 1] / 2**0.5).cos()
    return 1 + x.square().sum(1) / 4000 - waves


def griewank(
    *,
    train: int = 1000,
    test: int = 40_000,
    noise_sd: float = 0.1,
    box: tuple[tuple[float, float], tuple[float, float]] = GRIEWANK_BOX,
    generator: torch.Generator | None = None,
    device: Device = "cpu",
) -> Dataset:
    """A noisy Griewank function at points that are uniform in a box of two different scales; y (N, 1).

    The paper prints N(0, 0.1), here read as a standard deviation, and the box [−7.5, −5] × [−2.5, 15], here taken as it
    stands though [−7.5, 5] may have been meant: both can be given. Test values are noisy too.

    >>> data = griewank()
    >>> data.train.x.shape, data.test.y.shape
    (torch.Size([1000, 2]), torch.Size([40000, 1]))
    """
    generator = as_generator(generator, "cpu")
    low, high = torch.tensor(box, dtype=torch.float64).T

    def drawn(num: int) -> Split:
        x = low + (high - low) * torch.rand(num, 2, dtype=torch.float64, generator=generator)
        noise = noise_sd * torch.randn(num, dtype=torch.float64, generator=generator)
        return Split(x.float(), (griewank_function(x) + noise)[:, None].float())

    note = f"simulated in the box {box} with noise of sd {noise_sd}, in the test part too"
    return dataset("griewank", drawn(train), drawn(test), note=note, normalise_targets=True, device=device)


def logistic(
    dimensions: int = 2,
    *,
    train: int = 1000,
    test: int = 10_000,
    weight: float = 16.0,
    generator: torch.Generator | None = None,
    device: Device = "cpu",
) -> Dataset:
    """Logistic regression on unit Gaussian inputs whose first component alone matters: P(y = 1|x) = σ(`weight` · x₁).

    Labels are 0 and 1, as float32 (N, 1), what the Bernoulli likelihood wants. The paper uses signs and prints
    1/(1 + exp(+y ω·x)), that is ω ↦ −ω; and it does not say how large its test set is.

    >>> data = logistic(64)
    >>> data.train.x.shape, data.train.y.shape, len(data.test)
    (torch.Size([1000, 64]), torch.Size([1000, 1]), 10000)
    """
    if dimensions < 1:
        raise ValueError(f"`dimensions` should be at least 1, found {dimensions}.")
    generator = as_generator(generator, "cpu")

    def drawn(num: int) -> Split:
        x = torch.randn(num, dimensions, dtype=torch.float64, generator=generator)
        uniform = torch.rand(num, dtype=torch.float64, generator=generator)
        return Split(x.float(), (uniform < (weight * x[:, 0]).sigmoid())[:, None].float())

    note = f"simulated: {dimensions} unit Gaussian inputs, logit {weight} x1, labels 0 and 1"
    return dataset("logistic", drawn(train), drawn(test), classes=("0", "1"), note=note, device=device)


def projected_mnist(
    *,
    train: int = 1024,
    dimensions: int = 10,
    generator: torch.Generator | None = None,
    device: Device = "cpu",
    download: bool = True,
) -> Dataset:
    """MNIST's grey values (0 to 1) times a random unit Gaussian matrix (784, `dimensions`): the first `train` training
    images and all 10,000 test images.

        projected_mnist(train=4096).train.x.shape       # (4096, 10)
    """
    generator = as_generator(generator, "cpu")
    whole = mnist(download=download)
    if not 0 < train <= len(whole.train):
        raise ValueError(f"`train` should lie between 1 and {len(whole.train)} images, found {train}.")
    matrix = torch.randn(784, dimensions, dtype=torch.float64, generator=generator)

    def projected(part: Split) -> Split:
        # in float64, so that the order of summation cannot show in the float32 result
        return Split((intensities(part.x).flatten(1).double() @ matrix).float(), part.y)

    note = f"the first {train:,} training images; grey values 0 to 1 times one random 784 × {dimensions} matrix"
    return dataset(
        "projected_mnist",
        projected(whole.train[:train]),
        projected(whole.test),
        classes=DIGITS,
        note=note,
        device=device,
    )
