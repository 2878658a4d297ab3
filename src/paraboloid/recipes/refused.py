"""What a person asked for and cannot have; the command line answers with this one line and exit code 2."""

from paraboloid.datasets.errors import DatasetAltered, DatasetMissing


class Refused(ValueError):
    """Says what should be, what was found, and what to do, in one line."""


# Nothing is wrong with the recipe, and trying its other cells would end in the same way.
UNAVAILABLE = (Refused, DatasetMissing, DatasetAltered)
