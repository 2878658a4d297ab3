"""The networks of the papers, one family per file; `table` knows them by name.

Where a paper does not print a layer, the builder's docstring says how it is read here.
"""

from paraboloid.recipes.models.alexnet import alexnet
from paraboloid.recipes.models.initialisation import initialised
from paraboloid.recipes.models.lenet import MultiHead, five_sets_lenet, lenet, strided_network
from paraboloid.recipes.models.mlp import autoencoder, griewank_network, mixture_encoder, mlp, toy_network
from paraboloid.recipes.models.norms import GhostBatchNorm
from paraboloid.recipes.models.resnet import resnet
from paraboloid.recipes.models.table import Architecture, table
from paraboloid.recipes.models.vgg import vgg16
from paraboloid.recipes.models.wide_resnet import wide_resnet
