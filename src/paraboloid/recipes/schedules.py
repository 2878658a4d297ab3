"""The learning rate along a run, as a factor of the rate that the optimiser was given.

    factor(step) = warm-up · drop^(drops so far) · decay^(epochs since decay_from) · 1 / (1 + inverse · epochs)

Time is the number of the step, from 0. The warm-up rises at every step and ends at one; the other parts move only
between epochs or at their drops. Parts that are not asked for are one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Schedule:
    """A schedule by plain values; times are in epochs.

    >>> schedule = Schedule(warmup=1, drops=(2, 3), drop=0.1)
    >>> [round(schedule.factor(step, steps_per_epoch=2), 4) for step in range(8)]
    [0.5, 1.0, 1.0, 1.0, 0.1, 0.1, 0.01, 0.01]
    """

    warmup: float = 0.0  # linear over so many epochs
    drops: tuple[float, ...] = ()  # when the rate is multiplied by `drop`
    drop: float = 0.1
    decay: float = 1.0  # by which every epoch after `decay_from` multiplies the rate
    decay_from: float = 0.0
    inverse: float = 0.0  # k of 1 / (1 + k · epochs)

    def __post_init__(self) -> None:
        least = {"warmup": self.warmup, "decay_from": self.decay_from, "inverse": self.inverse}
        negative = [name for name, value in least.items() if value < 0]
        if negative or any(at < 0 for at in self.drops):
            raise ValueError(f"times and `inverse` should not be negative; found {self}.")
        if self.drop <= 0 or self.decay <= 0:
            raise ValueError(f"`drop` and `decay` should be positive factors; found {self}.")

    def factor(self, step: int, steps_per_epoch: int) -> float:
        """What the learning rate is multiplied by in this step of the run."""
        epoch = step // steps_per_epoch
        rising = round(self.warmup * steps_per_epoch)
        warm = min(1.0, (step + 1) / rising) if rising else 1.0
        # rounded, because a fraction of the run such as 0.7 · 10 epochs is not exactly 7
        dropped = sum(step >= round(at * steps_per_epoch) for at in self.drops)
        since = max(0.0, epoch - self.decay_from)
        return warm * self.drop**dropped * self.decay**since / (1 + self.inverse * epoch)

    def over(self, epochs: float) -> Schedule:
        """The same schedule whose times were fractions of the run, for a run of so many epochs.

        >>> Schedule(drops=(0.5, 0.75)).over(200).drops
        (100.0, 150.0)
        """
        drops = tuple(at * epochs for at in self.drops)
        return replace(self, warmup=self.warmup * epochs, drops=drops, decay_from=self.decay_from * epochs)
