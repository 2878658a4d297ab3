"""The papers' data sets, with checksums: one function each, and `catalogue` for reaching them by name."""

from paraboloid.datasets import catalogue
from paraboloid.datasets.augment import Augmentation, binarise
from paraboloid.datasets.bandits import Bandit, Rewards, census, covertype, mushroom, shuttle, wheel
from paraboloid.datasets.errors import DatasetAltered, DatasetMissing
from paraboloid.datasets.images import cifar10, cifar100, fashion_mnist, mnist, notmnist, olivetti, svhn
from paraboloid.datasets.record import Dataset, Normalisation, Split, intensities
from paraboloid.datasets.regression import uci_regression
from paraboloid.datasets.simulated import griewank, griewank_function, logistic, projected_mnist, toy_cubic
from paraboloid.datasets.small_digits import digits
from paraboloid.datasets.strokes import curves
from paraboloid.datasets.text import Text, tinyshakespeare, windows
from paraboloid.datasets.turned_faces import faces
