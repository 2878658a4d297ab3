"""Contextual bandits: contexts, what lies behind each of them (a label), and what each arm pays for a label.

Four tables and the simulated wheel. A step of a bandit shows a context, an arm is chosen, and its reward is seen.
The regret of the choice is the best expected reward minus the expected reward of the arm.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from paraboloid.datasets.draws import required
from paraboloid.datasets.files import checked
from paraboloid.datasets.record import Device, Normalisation, digest_of, normalisation, on
from paraboloid.datasets.sources import ADULT_CLASSES
from paraboloid.spaces.randomness import as_generator


@dataclass(frozen=True)
class Rewards:
    """What arms pay: one of the two `outcomes` (labels, arms, 2) by a fair coin, plus Gaussian noise of sd `noise_sd`.

    >>> rewards = classification_rewards(3)
    >>> rewards.expected(torch.tensor([1])).tolist()
    [[0.0, 1.0, 0.0]]
    >>> rewards.draw(torch.tensor([1, 2]), torch.tensor([1, 1]), torch.Generator()).tolist()
    [1.0, 0.0]
    """

    outcomes: Tensor
    noise_sd: float = 0.0

    def expected(self, labels: Tensor) -> Tensor:
        """The mean reward of every arm (n, arms)."""
        return self.outcomes[labels].mean(-1)

    def draw(self, labels: Tensor, arms: Tensor, generator: torch.Generator) -> Tensor:
        """A reward for each pair of a label and an arm that was chosen."""
        generator = required(generator, self.outcomes.device)
        coins = torch.randint(0, 2, arms.shape, generator=generator, device=arms.device)
        paid = self.outcomes[labels, arms, coins]
        if self.noise_sd == 0:
            return paid
        noise = torch.randn(arms.shape, generator=generator, dtype=paid.dtype, device=arms.device)
        return paid + self.noise_sd * noise

    def to(self, device: Device) -> Rewards:
        return Rewards(self.outcomes.to(device), self.noise_sd)


@dataclass(frozen=True)
class Bandit:
    """Contexts (N, d) as float32, labels (N,), and the rewards of `arms`; `normalise` standardises the contexts.

    >>> wheel(num=100).contexts.shape
    torch.Size([100, 2])
    """

    name: str
    contexts: Tensor
    labels: Tensor
    rewards: Rewards
    normalise: Normalisation
    columns: tuple[str, ...]
    classes: tuple[str, ...]
    arms: tuple[str, ...]
    note: str
    digest: str

    def __len__(self) -> int:
        return len(self.contexts)

    def to(self, device: Device) -> Bandit:
        """The same bandit on another device."""
        return on(self, device)


def classification_rewards(classes: int) -> Rewards:
    """One arm per class: 1 for the right one, 0 for the others.

    >>> classification_rewards(2).outcomes[..., 0].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    right = torch.eye(classes, dtype=torch.float32)
    return Rewards(torch.stack([right, right], -1))


def mushroom(*, device: Device = "cpu", download: bool = True) -> Bandit:
    """8,124 mushrooms with 22 attributes, one-hot in 117 columns. Arms: leave it (0), or eat it: +5 if it is edible,
    and +5 or −35 by a fair coin if it is poisonous.

        mushroom().rewards.expected(torch.tensor([1]))   # poisonous: [[0., -15.]]
    """
    arrays = checked("mushroom", download).arrays
    contexts, columns = [], []
    for name, values in zip(arrays["feature_names"], arrays["x"].T, strict=True):
        levels = np.unique(values)
        contexts.append(values[:, None] == levels)
        columns += [f"{name}={level.decode()}" for level in levels]
    poisonous = torch.from_numpy(arrays["y"] == b"p").long()
    outcomes = torch.tensor([[[0.0, 0.0], [5.0, 5.0]], [[0.0, 0.0], [5.0, -35.0]]], dtype=torch.float32)
    return _bandit(
        "mushroom",
        torch.from_numpy(np.concatenate(contexts, 1)),
        poisonous,
        Rewards(outcomes),
        columns=tuple(columns),
        classes=("edible", "poisonous"),
        arms=("leave", "eat"),
        note='in the file\'s order; "?" (2,480 times, in stalk-root) is a level of its own; one column is constant',
        device=device,
    )


def shuttle(*, device: Device = "cpu", download: bool = True) -> Bandit:
    """58,000 states of a space shuttle's radiators: 9 numbers, 7 classes, of which one has 78.6 % of the rows.

    For instance:

        shuttle().contexts.shape                         # (58000, 9)
    """
    arrays = checked("shuttle", download).arrays
    return _bandit(
        "shuttle",
        torch.from_numpy(np.ascontiguousarray(arrays["x"])),
        torch.from_numpy(arrays["y"]).long() - 1,
        classification_rewards(7),
        columns=tuple(f"x{column}" for column in range(1, 10)),
        classes=tuple(str(name) for name in arrays["class_names"]),
        note=f"in the file's order: the first {int(arrays['n_train']):,} rows are shuttle.trn, the others shuttle.tst",
        device=device,
    )


def covertype(*, device: Device = "cpu", download: bool = True) -> Bandit:
    """581,012 patches of forest: 10 numbers and 44 indicators, 7 kinds of cover.

    For instance:

        covertype().contexts.shape                       # (581012, 54)
    """
    arrays = checked("covertype", download).arrays
    kinds = "Spruce/Fir,Lodgepole Pine,Ponderosa Pine,Cottonwood/Willow,Aspen,Douglas-fir,Krummholz".split(",")
    return _bandit(
        "covertype",
        torch.from_numpy(np.ascontiguousarray(arrays["x"])),
        torch.from_numpy(arrays["y"]).long() - 1,
        classification_rewards(7),
        columns=tuple(str(name) for name in arrays["feature_names"]),
        classes=tuple(kinds),
        note="in the file's order, which is not random: draw the rows of a run",
        device=device,
    )


def census(*, device: Device = "cpu", download: bool = True) -> Bandit:
    """The occupation of 45,222 people (14 classes) from 6 numbers and 8 attributes, one-hot: 92 columns (UCI's Adult).

    For instance:

        census().contexts.shape                          # (45222, 92)
    """
    arrays = checked("adult", download).arrays
    names = list(ADULT_CLASSES)
    levels = {name: arrays[f"levels_{name}"] for name in names}
    codes = {name: arrays["x_cat"][:, place] for place, name in enumerate(names)}
    complete = np.all([levels[name][codes[name]] != "?" for name in names], axis=0)
    contexts, columns = [arrays["x_num"][complete]], [str(name) for name in arrays["num_names"]]
    for name in names:
        if name != "occupation":
            present = np.unique(codes[name][complete])
            contexts.append(codes[name][complete][:, None] == present)
            columns += [f"{name}={level}" for level in levels[name][present]]
    jobs, labels = np.unique(codes["occupation"][complete], return_inverse=True)
    return _bandit(
        "census",
        torch.from_numpy(np.concatenate(contexts, 1)),
        torch.from_numpy(labels).long(),
        classification_rewards(len(jobs)),
        columns=tuple(columns),
        classes=tuple(str(job) for job in levels["occupation"][jobs]),
        note='in the file\'s order; the 3,620 rows with a "?" are left out; income is stored without the full stop '
        "of the test file, which would make 94 columns",
        device=device,
    )


def wheel(
    *, num: int = 2000, delta: float = 0.95, generator: torch.Generator | None = None, device: Device = "cpu"
) -> Bandit:
    """The wheel: contexts uniform in the unit disk, five arms. Arm 1 pays 1.2 everywhere, the others 1, except that
    outside the radius `delta` the arm of the quadrant pays 50. All rewards have noise of sd 0.01.

    >>> bandit = wheel(num=1000, delta=0.5)
    >>> bandit.labels.bincount().tolist()
    [254, 197, 162, 190, 197]
    """
    if not 0 < delta < 1:
        raise ValueError(f"`delta` should be a radius inside the unit disk, between 0 and 1, found {delta}.")
    generator = as_generator(generator, "cpu")
    radius, turn = torch.rand(2, num, dtype=torch.float64, generator=generator)
    angle = 2 * torch.pi * turn
    contexts = (radius.sqrt() * torch.stack([angle.cos(), angle.sin()])).T
    # quadrants (+, +), (+, −), (−, +), (−, −) belong to arms 2 to 5
    quadrant = 1 + 2 * (contexts[:, 0] < 0).long() + (contexts[:, 1] < 0).long()
    labels = torch.where(contexts.norm(dim=1) > delta, quadrant, 0)
    means = torch.ones(5, 5, dtype=torch.float32)
    means[:, 0] = 1.2
    means.diagonal()[1:] = 50.0
    return _bandit(
        "wheel",
        contexts,
        labels,
        Rewards(torch.stack([means, means], -1), noise_sd=0.01),
        columns=("x1", "x2"),
        classes=("inside", "x1>0, x2>0", "x1>0, x2<0", "x1<0, x2>0", "x1<0, x2<0"),
        note=f"simulated, delta = {delta}",
        device=device,
    )


def _bandit(
    name: str,
    contexts: Tensor,
    labels: Tensor,
    rewards: Rewards,
    *,
    columns: tuple[str, ...],
    classes: tuple[str, ...],
    note: str,
    device: Device,
    arms: tuple[str, ...] | None = None,
) -> Bandit:
    contexts = contexts.to(torch.float32)
    digest = digest_of({"contexts": contexts, "labels": labels, "outcomes": rewards.outcomes})
    made = Bandit(
        name, contexts, labels, rewards, normalisation(contexts), columns, classes, arms or classes, note, digest
    )
    return made.to(device)
