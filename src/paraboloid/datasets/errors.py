"""The two ways in which data can fail: the file is not there, or it is not the file that was meant."""


class DatasetMissing(FileNotFoundError):
    """There is no file for a data set, and it could not be downloaded. The text says how to get it.

    >>> raise DatasetMissing("mnist is not on this machine.")
    Traceback (most recent call last):
    paraboloid.datasets.errors.DatasetMissing: mnist is not on this machine.
    """


class DatasetAltered(ValueError):
    """A file holds other numbers than the ones that are known by their digests, and is not used.

    >>> raise DatasetAltered("mnist.npz is not a whole .npz file.")
    Traceback (most recent call last):
    paraboloid.datasets.errors.DatasetAltered: mnist.npz is not a whole .npz file.
    """
