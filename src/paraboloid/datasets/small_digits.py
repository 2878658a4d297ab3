"""Small digits that need no file: scikit-learn carries them."""

from __future__ import annotations

import numpy as np

from paraboloid.datasets.editions import Array, Edition, recognise
from paraboloid.datasets.errors import DatasetAltered
from paraboloid.datasets.images import DIGITS, parted_by_content
from paraboloid.datasets.record import Dataset, Device

X = "8f26b2bd9d135c256808f68f14fdabddde6d9c7f869ae419704b051f0f14b3b3"
Y = "8ba4f891220f5e4c9c819638d1602d74b83618f167043c6da52a2a247841ddf0"
EDITION = Edition("scikit-learn's", {"x": Array((1797, 64), "|u1", X), "y": Array((1797,), "|u1", Y)})


def digits(*, train: int = 1437, device: Device = "cpu") -> Dataset:
    """1,797 digits of 8 × 8 pixels with grey values 0 to 16, from scikit-learn; the first `train` by the sha256 of
    their pictures are the training part. (scikit-learn has them by writer, so a cut there would not be a fair one.)

        data = digits()
        len(data.train), len(data.test)                 # (1437, 360)
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError(
            "digits come with scikit-learn, which is not installed. Install it by `pip install scikit-learn`."
        ) from error
    x, y = (array.astype(np.uint8) for array in load_digits(return_X_y=True))
    found = recognise({"x": x, "y": y}, [EDITION])
    if isinstance(found, str):
        raise DatasetAltered(
            f"scikit-learn's digits are not the ones that were known: {found}. Install another version."
        )
    x = x.reshape(-1, 8, 8)
    return parted_by_content("digits", x, y, train, classes=DIGITS, note="grey values 0 to 16", device=device)
