"""Curvature of PyTorch models: estimate it once, then train, sample, predict and look with it."""

from paraboloid import operators
from paraboloid.curvature.certificate import Certificate
from paraboloid.curvature.coverage import Coverage
from paraboloid.curvature.fit import curvature
from paraboloid.curvature.graph import UncoveredError
from paraboloid.curvature.running import Curvature
from paraboloid.laplace.fit import laplace
from paraboloid.laplace.posterior import LaplacePosterior
from paraboloid.laplace.saving import load_posterior
from paraboloid.operators.base import LinearOperator, load_operator
from paraboloid.operators.blocks import Block, BlockDiagonal
from paraboloid.operators.cg import NotConverged
from paraboloid.operators.decompositions import SingularError
from paraboloid.operators.dense import Dense
from paraboloid.operators.diagonal import Diagonal, identity
from paraboloid.operators.eigenkronecker import EigenKronecker
from paraboloid.operators.estimates import Estimate
from paraboloid.operators.gaussian import Gaussian
from paraboloid.operators.kronecker import Kronecker
from paraboloid.operators.lowrank import LowRank
from paraboloid.operators.matrixfree import MatrixFree
from paraboloid.operators.nearest import nearest_kronecker
from paraboloid.spaces.batches import Batches
from paraboloid.spaces.likelihoods import (
    Bernoulli,
    Categorical,
    GaussianLikelihood,
    HeteroscedasticGaussian,
    Likelihood,
    LogDensity,
    Poisson,
)
from paraboloid.spaces.params import Params

__version__ = "0.1.0"

__all__ = [
    "curvature",
    "Curvature",
    "Coverage",
    "Certificate",
    "UncoveredError",
    "laplace",
    "LaplacePosterior",
    "load_posterior",
    "Params",
    "Batches",
    "Likelihood",
    "Categorical",
    "Bernoulli",
    "GaussianLikelihood",
    "HeteroscedasticGaussian",
    "Poisson",
    "LogDensity",
    "LinearOperator",
    "Dense",
    "Diagonal",
    "identity",
    "LowRank",
    "Kronecker",
    "EigenKronecker",
    "Block",
    "BlockDiagonal",
    "MatrixFree",
    "nearest_kronecker",
    "load_operator",
    "Gaussian",
    "Estimate",
    "SingularError",
    "NotConverged",
    "__version__",
]
