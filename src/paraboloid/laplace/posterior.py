"""`LaplacePosterior`: a normal distribution over a network's weights that knows its network.

    N(μ, P⁻¹),  P = T⁻¹ (N/T_ℓ · F + diag(δ))                                                   (P.2)

μ are the trained weights, F the average curvature, N the number of terms, δ the prior precisions. The network is a
copy, so that later training of the original changes nothing here.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from paraboloid.laplace.evidence import Evidence
from paraboloid.laplace.predicting import predict
from paraboloid.laplace.prior import Prior, check_temperature
from paraboloid.laplace.spectral import pieces, with_prior
from paraboloid.laplace.totals import Totals
from paraboloid.laplace.tuning import Maximum, maximise
from paraboloid.laplace.validating import FACTORS, Metric, try_all
from paraboloid.operators.base import LinearOperator
from paraboloid.operators.gaussian import Gaussian
from paraboloid.prediction.linearised import Outputs, linearised
from paraboloid.spaces import storage
from paraboloid.spaces.batches import Batch, Batches
from paraboloid.spaces.gaussian import GaussianLikelihood
from paraboloid.spaces.likelihood import Likelihood
from paraboloid.spaces.likelihoods import likelihood as named_likelihood
from paraboloid.spaces.params import Params


class LaplacePosterior:
    """What `paraboloid.laplace` returns.

    It is a Gaussian: `mean`, `precision`, `sample`, `log_prob`, `entropy`, `kl`, `marginal_variance`. It knows its
    network: `predict`, `functional_variance`. It knows its data: `evidence`, `tune`.

    >>> import paraboloid
    >>> model, x = torch.nn.Linear(1, 1), torch.linspace(-1, 1, 5)[:, None]
    >>> posterior = paraboloid.laplace(model, (x, model(x).detach()), likelihood="gaussian", prior_precision=0.1)
    >>> posterior.predict(x).mean.shape, posterior.sample(3, torch.Generator().manual_seed(0)).shape
    (torch.Size([5, 1]), torch.Size([3, 2]))
    """

    def __init__(
        self,
        model: nn.Module,
        params: Params,
        likelihood: Likelihood,
        batches: Batches,
        operator: LinearOperator,
        totals: Totals | None,
        prior: Prior,
        num_data: float,
        temperature: float = 1.0,
        likelihood_temperature: float = 1.0,
        class_axis: int | None = 1,
    ) -> None:
        self.model, self.params, self.likelihood, self._batches = model, params, likelihood, batches
        self.curvature, self.totals, self.prior, self.num_data = operator, totals, prior, num_data
        self.temperature = check_temperature(temperature, "temperature")
        self.likelihood_temperature = check_temperature(likelihood_temperature, "likelihood_temperature")
        self.class_axis = class_axis

    # ---------------------------------------------------------------------- a Gaussian
    @cached_property
    @torch.inference_mode(False)
    def gaussian(self) -> Gaussian:
        """The distribution alone."""
        mean = self.params.flatten(self.params.tensors(self.model)).detach().to(self.curvature.dtype)
        precision = with_prior(self.curvature, self._strength, self.prior)
        return Gaussian(mean, precision if self.temperature == 1 else precision / self.temperature)

    @property
    def _strength(self) -> float:
        """N / T_ℓ, and the noise's share where it was tuned."""
        return self.num_data / self.likelihood_temperature

    @property
    def mean(self) -> Tensor:
        """μ (P,)."""
        return self.gaussian.mean

    @property
    def precision(self) -> LinearOperator:
        """P, at the scale of sums over the data."""
        return self.gaussian.precision

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """n weight vectors, (n, P)."""
        return self.gaussian.sample(n, generator)

    def log_prob(self, theta: Tensor) -> Tensor:
        """Log density of (P,) or of each row of (K, P)."""
        return self.gaussian.log_prob(theta)

    def entropy(self) -> Tensor:
        """−E log q."""
        return self.gaussian.entropy()

    def kl(self, other: Gaussian | LaplacePosterior) -> Tensor:
        """KL(self ‖ other)."""
        return self.gaussian.kl(other.gaussian if isinstance(other, LaplacePosterior) else other)

    def marginal_variance(self) -> Tensor:
        """diag P⁻¹, (P,)."""
        return self.gaussian.marginal_variance()

    # ---------------------------------------------------------------------- predictions
    def functional_variance(self, x: Any, memory: int | None = None) -> Tensor:
        """Covariances J P⁻¹ Jᵀ of the outputs, (*terms, C, C), without a Jacobian (P.4)."""
        return self.outputs(x, memory).covariance

    def outputs(self, x: Any, memory: int | None = None) -> Outputs:
        """Means and covariances of the linearised outputs."""
        inputs = self._inputs(x)
        return linearised(self.model, self.params, self.precision, inputs, self._batches, self.class_axis, memory)

    def predict(
        self,
        x: Any,
        method: str = "linearised",
        *,
        link: str = "probit",
        samples: int = 100,
        generator: torch.Generator | None = None,
    ) -> Distribution:
        """The predictive distribution of the targets, batch shape (*terms,).

        `method`: "linearised" (outputs normal to first order; `link` takes a sigmoid or softmax to them: "probit",
        "bridge", or "sampled" with `samples` logits), "sampled" (`samples` draws of the weights, each evaluated),
        "map".
        """
        return predict(self, x, method, link, samples, generator)

    def _inputs(self, x: Any) -> Batch:
        """x as `Batches` would hand it to the model: a tensor, a tuple of arguments, or keyword arguments."""
        device = self.mean.device
        if isinstance(x, Tensor):
            return Batch((x.to(device),), {}, None, None)
        if isinstance(x, Mapping):
            return Batch((), {key: v.to(device) if isinstance(v, Tensor) else v for key, v in x.items()}, None, None)
        if isinstance(x, tuple | list):
            return Batch(tuple(v.to(device) if isinstance(v, Tensor) else v for v in x), {}, None, None)
        raise TypeError(f"x should be a tensor, a tuple of arguments or a dict of them, found {type(x).__name__}.")

    # ---------------------------------------------------------------------- the evidence
    def evidence(self, prior_precision: float | Tensor | None = None, noise: float | Tensor | None = None) -> Tensor:
        """The log evidence (P.7), float64; for other prior precisions or noise variances than the posterior's own.

        A pure function, differentiable in tensors that are given.
        """
        prior = self.prior if prior_precision is None else self.prior.with_values(prior_precision)
        variance = None if noise is None else torch.as_tensor(noise, dtype=torch.float64)
        if variance is not None and self._noise is None:
            raise ValueError(f"the likelihood {self.likelihood!r} has no noise variance to vary.")
        if variance is not None and not (variance.ndim == 0 and bool(variance.isfinite() & (variance > 0))):
            raise ValueError(f"noise should be one variance, positive and finite, found {noise!r}.")
        return self._evidence.at(prior, variance)

    @cached_property
    @torch.inference_mode(False)
    def _evidence(self) -> Evidence:
        if self.totals is None:
            raise ValueError(
                "the evidence needs the loss over the data, which was not computed: give data that can be gone through "
                "twice to `laplace`."
            )
        if self.temperature != 1 or self.likelihood_temperature != 1:
            raise ValueError("the evidence is that of the model itself: it has no temperature, found one beside 1.")
        squares = self.prior.squares(self.mean)
        found = pieces(self.curvature, self.prior)
        counts = self.prior.counts
        return Evidence(self.curvature, found, self.totals, self.num_data, squares, counts, self._noise)

    @property
    def _noise(self) -> float | None:
        """The noise variance of a Gaussian likelihood with one number for all outputs ("mse" has C/2)."""
        if not isinstance(self.likelihood, GaussianLikelihood):
            return None
        if self.likelihood.noise is None:
            return None if self.totals is None else self.totals.outputs / 2
        return None if self.likelihood.noise.ndim else float(self.likelihood.noise)

    def tune(
        self,
        method: str = "evidence",
        *,
        noise: bool = True,
        data: Any = None,
        factors: Sequence[float] = FACTORS,
        strengths: Sequence[float] = (1.0,),
        metric: Metric | None = None,
        **options: Any,
    ) -> LaplacePosterior:
        """Choose the hyper-parameters, in place; returns self.

        "evidence": prior precisions, and the noise of a Gaussian likelihood, where the evidence is largest.
        "validation": prior precisions times one of `factors`, and N times one of `strengths`, where predictions for
        `data` have the lowest mean `metric(distribution, targets)`, by default −log p; `options` go to `predict`.
        """
        if method == "validation":
            return self._tune_by(data, factors, strengths, metric, options)
        if method != "evidence":
            raise ValueError(f'method should be "evidence" or "validation", found {method!r}.')
        found = self.maximum_evidence(noise)
        values = found.logarithms.exp()
        groups = len(self.prior.values)
        self.prior = self.prior.with_values(values[:groups])
        if len(values) > groups:
            self._set_noise(values[groups])
        self._forget()
        return self

    def _tune_by(
        self,
        data: Any,
        factors: Sequence[float],
        strengths: Sequence[float],
        metric: Metric | None,
        options: dict[str, Any],
    ) -> LaplacePosterior:
        if data is None:
            raise ValueError('tune(method="validation") needs data= that the network was not trained on.')
        best = try_all(self._changed, data, factors, strengths, metric, options)[0]
        chosen = self._changed(best.factor, best.strength)
        self.prior, self.likelihood_temperature = chosen.prior, chosen.likelihood_temperature
        self._forget()
        return self

    def _changed(self, factor: float, strength: float) -> LaplacePosterior:
        """The posterior with prior precisions times a factor and N times a strength."""
        other = copy.copy(self)
        other.prior = self.prior.with_values(self.prior.values * factor)
        other.likelihood_temperature = self.likelihood_temperature / strength
        other._forget()
        return other

    def maximum_evidence(self, noise: bool = True) -> Maximum:
        """Where the evidence is largest, with its derivatives in the logarithms of the hyper-parameters."""
        groups = len(self.prior.values)
        names = tuple(f"prior_precision[{name}]" for name in self.prior.names)
        start = self.prior.values.log()
        if noise and self._noise is not None:
            start = torch.cat([start, start.new_tensor([self._noise]).log()])
            names = (*names, "noise")
        whole = self._evidence

        def evidence(logarithms: Tensor) -> Tensor:
            values = logarithms.exp()
            prior = replace(self.prior, values=values[:groups])
            return whole.at(prior, values[groups] if len(values) > groups else None)

        return maximise(evidence, start, names)

    def _set_noise(self, noise: Tensor) -> None:
        """Another noise variance: curvature and loss follow it."""
        assert self.totals is not None and self._noise is not None
        scale = self._noise / float(noise)
        loss = self.totals.loss_at(noise, self._noise)
        self.totals = replace(self.totals, loss=loss, gradient=self.totals.gradient * scale)
        self.curvature = scale * self.curvature
        self.likelihood = GaussianLikelihood(float(noise))

    def _forget(self) -> None:
        for name in ("gaussian", "_evidence"):
            self.__dict__.pop(name, None)

    # ---------------------------------------------------------------------- how far from a minimum
    @property
    def newton_decrement(self) -> float:
        """½ gᵀP⁻¹g of the negative log posterior at the mean: what one Newton step would still gain, in nats (P.8).

        `likelihood_temperature` is part of that posterior; `temperature`, which moves no minimum, is left out.
        """
        if self.totals is None:
            return float("nan")
        g = self.totals.gradient / self.likelihood_temperature + self.prior.vector * (self.mean - self.prior.mean)
        return 0.5 * float(g @ self.precision.solve(g)) / self.temperature

    def save(self, path: str | os.PathLike[str]) -> None:
        """One safetensors file; `paraboloid.load_posterior(path, model)` reads it back."""
        named_likelihood(self.likelihood.config())  # one that could not be read back is refused here
        tensors, metadata = self.curvature.state()
        stored = {f"curvature.{name}": tensor for name, tensor in tensors.items()}
        state = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        prior = {"prior.values": self.prior.values, "prior.group": self.prior.group, "prior.mean": self.prior.mean}
        totals = None
        if self.totals is not None:
            stored |= {"totals.loss": self.totals.loss, "totals.gradient": self.totals.gradient}
            totals = [self.totals.count, self.totals.outputs, self.totals.class_axis]
        about = {
            "kind": "laplace",
            "curvature": metadata,
            "likelihood": self.likelihood.config(),
            "names": list(self.params.names),
            "shapes": [list(shape) for shape in self.params.shapes],
            "prior": None if set(self.prior.names) == {"each weight"} else list(self.prior.names),
            "totals": totals,
            "num_data": self.num_data,
            "temperatures": [self.temperature, self.likelihood_temperature],
            "class_axis": self.class_axis,
        }
        storage.save(path, stored | state | prior, about)

    def __repr__(self) -> str:
        delta = ", ".join(f"{float(v):.3g}" for v in self.prior.values[:4]) + (
            " …" if len(self.prior.values) > 4 else ""
        )
        return (
            f"LaplacePosterior(size={self.params.numel}, num_data={self.num_data:g}, prior_precision={delta}, "
            f"likelihood={self.likelihood!r})"
        )
