"""The nine UCI regressions with the splits that the field compares itself on."""

from __future__ import annotations

import numpy as np
import torch

from paraboloid.datasets.files import checked
from paraboloid.datasets.record import Dataset, Device, Split, dataset
from paraboloid.datasets.sources import UCI_TABLES


def uci_regression(table: str, *, split: int = 0, device: Device = "cpu", download: bool = True) -> Dataset:
    """boston, concrete, energy, kin8nm, naval, power, protein, wine or yacht, in one of its 20 splits (protein: 5).

    x (N, d) and y (N,) are float32 as measured; `normalise` and `normalise_targets` standardise by the training part.
    Errors are usually reported in the units of y: multiply them by `normalise_targets.sd`.

        data = uci_regression("yacht", split=3)
        len(data.train), len(data.test)                 # (277, 31)
    """
    if table not in UCI_TABLES:
        raise ValueError(f"`table` should be one of {', '.join(UCI_TABLES)}; found {table!r}.")
    splits = UCI_TABLES[table][1]
    if not 0 <= split < splits:
        raise ValueError(f"`split` of {table} should lie between 0 and {splits - 1}, found {split}.")
    arrays = checked("uci_regression", download).arrays
    held_out = torch.from_numpy(arrays[f"test_{table}"][split].astype(np.int64))
    x, y = (torch.from_numpy(arrays[f"{letter}_{table}"]).float() for letter in "xy")
    kept = torch.ones(len(x), dtype=torch.bool).index_fill_(0, held_out, False)
    train, test = Split(x[kept], y[kept]), Split(x[held_out], y[held_out])
    note = f"split {split} of {splits}"
    if table == "boston":
        note += (
            "; one column is built on race, and scikit-learn withdrew the table: for comparison with old results only"
        )
    return dataset(f"uci_regression/{table}", train, test, note=note, normalise_targets=True, device=device)
