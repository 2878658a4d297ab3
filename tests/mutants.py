"""Planted bugs: each patch breaks one line of the package, and the named test has to fail on the broken copy.

    ./x mutants            all of them
    ./x mutants -k bias    some

A test that passes on a mutant would let the same slip through in earnest.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FAILED = 1  # pytest's exit code when tests ran and some failed; others mean that nothing was tested


@dataclass(frozen=True)
class Mutant:
    """In `file`, `right` (which occurs once) becomes `wrong`; `test` notices."""

    name: str
    file: str
    right: str
    wrong: str
    test: str


def mutant(name: str, file: str, right: str, wrong: str, test: str) -> Mutant:
    return Mutant(name, f"paraboloid/{file}.py", right, wrong, f"tests/{test}")


ZOO = "curvature/test_zoo.py::"
KRONECKER = "curvature/test_kronecker.py::"
BATCHING = "curvature/test_batching.py::"
UNBIASED = "curvature/test_unbiased.py::"
RUNNING = "curvature/test_running.py::"
LAYOUTS = "curvature/test_memory_of_layouts.py::"
DENSE = f"{ZOO}test_dense_is_the_gauss_newton_matrix"
DIAGONAL = f"{ZOO}test_the_diagonal_is_that_of_the_gauss_newton_matrix"
EXACT = f"{KRONECKER}test_blocks_are_exact_where_one_kronecker_product_can_be"
CORRECTED = f"{KRONECKER}test_corrected_eigenvalues_are_the_best_for_their_basis"
HOOKS = f"{KRONECKER}test_factors_of_linears_are_those_seen_by_module_hooks"

MUTANTS = [
    # ---- what a likelihood, a datum and a vector are
    mutant(
        "sign_of_the_gradient",
        "spaces/categorical",
        "-others.sum(-1, keepdim=True)",
        "others.sum(-1, keepdim=True)",
        "spaces/test_likelihoods.py::test_gradient_is_that_of_autograd",
    ),
    mutant(
        "root_without_its_pivot",
        "spaces/categorical",
        "(p / (1 + s_pivot))",
        "(p / 1)",
        "spaces/test_categorical.py::test_the_pivot_is_found_in_every_row",
    ),
    mutant(
        "terms_counted_without_weights",
        "spaces/terms",
        "float(self.weights.double().sum())",
        "float(len(self.outputs))",
        f"{BATCHING}test_a_weight_counts_as_that_many_terms",
    ),
    mutant(
        "ignored_rows_kept",
        "spaces/terms",
        "if keep is not None and not complete:",
        "if False:",
        f"{BATCHING}test_examples_without_any_term_change_nothing",
    ),
    # ---- columns
    mutant(
        "labels_not_averaged",
        "curvature/columns",
        "self.likelihood.gradient(h, label) / self.samples**0.5",
        "self.likelihood.gradient(h, label)",
        f"{UNBIASED}test_several_samples_are_averaged",
    ),
    mutant(
        "projections_not_averaged",
        "curvature/columns",
        "yield total / self.samples**0.5",
        "yield total / 2",
        f"{UNBIASED}test_projections_over_all_signs_give_the_exact_operator",
    ),
    mutant(
        "weights_squared",
        "curvature/columns",
        "self.terms.weights.sqrt()",
        "self.terms.weights",
        f"{BATCHING}test_a_weight_counts_as_that_many_terms",
    ),
    mutant(
        "tokens_in_one_column", "curvature/columns", "torch.where(here, column, 0)", "column", f"{DENSE}[linear_tokens]"
    ),
    # ---- the walk
    mutant(
        "a_use_dropped",
        "curvature/layout",
        "                selected.extend(",
        "                selected[:] = selected[:3]\n                selected.extend(",
        f"{DENSE}[mlp_relu]",
    ),
    mutant(
        "owners_without_their_digits", "curvature/ownership", "code += found * place", "code += found", f"{DENSE}[mlp]"
    ),
    mutant(
        "wrong_leaf_of_a_function", "curvature/rules/pulled", "operand.leaves.index(leaf)", "0", f"{DENSE}[lora_merged]"
    ),
    mutant(
        "a_bias_in_two_blocks",
        "curvature/layout",
        "if not bool((claims[ts[0].index] > 1).any())",
        "if True",
        f"{LAYOUTS}test_a_bias_of_two_matrices_is_counted_once",
    ),
    mutant(
        "routing_forgotten",
        "curvature/graph",
        "Scatter ScatterAdd ScatterReduce IndexPut",
        "Scatter ScatterAdd IndexPut",
        f"{LAYOUTS}test_another_grouping_by_index_is_seen",
    ),
    mutant(
        "assignments_remembered",
        "curvature/graph",
        "self.steered = any(self._is_steered(node) for node in self.nodes)",
        "self.steered = False",
        f"{LAYOUTS}test_another_assignment_of_rows_to_examples_is_seen",
    ),
    mutant(
        "certificate_that_never_fails",
        "curvature/certificate",
        "    if found.passed:\n",
        "    if found:\n",
        f"{RUNNING}test_verify_and_the_next_fit_name_the_parameter_of_a_rule_that_is_wrong",
    ),
    # ---- rules
    mutant(
        "bias_in_the_first_column",
        "curvature/rules/part",
        "torch.cat([rows, rows.new_ones(*rows.shape[:-1], 1)], -1)",
        "torch.cat([rows.new_ones(*rows.shape[:-1], 1), rows], -1)",
        f"{DENSE}[mlp]",
    ),
    mutant(
        "positions_not_summed",
        "curvature/rules/part",
        "return columns @ inputs.to(columns.dtype)",
        "return columns[..., :1] @ inputs[:, :1].to(columns.dtype)",
        f"{DENSE}[conv2d]",
    ),
    mutant(
        "dilation_forgotten",
        "curvature/rules/convolution",
        "tuple(s * k for s, k in zip(space, self.dilation, strict=True))",
        "tuple(space)",
        f"{DIAGONAL}[conv2d_dilated]",
    ),
    mutant(
        "kernel_not_flipped",
        "curvature/rules/convolution",
        "part.transpose(0, 1).flip(*range(2, part.dim()))",
        "part.transpose(0, 1)",
        f"{DIAGONAL}[conv_transpose2d]",
    ),
    mutant(
        "distance_with_the_wrong_sign",
        "curvature/rules/autocorrelation",
        "half[:, :, k - i, m - j + b - 1]",
        "half[:, :, k - i, j - m + b - 1]",
        "house/test_examples.py::test_docstrings_run[curvature/rules/autocorrelation.py]",
    ),
    mutant(
        "mean_not_removed",
        "curvature/rules/elementwise",
        "g * (node._saved_input - node._saved_result1)",
        "g * node._saved_input",
        f"{DIAGONAL}[layer_norm]",
    ),
    mutant(
        "padding_row_counted",
        "curvature/rules/lookup",
        "self.kept = indices != padding",
        "self.kept = indices > -2",
        f"{DIAGONAL}[embedding_padding]",
    ),
    mutant(
        "scale_of_an_operand_forgotten",
        "curvature/rules/scaled",
        "return self.scale * self.inner.outputs(stacks, low, high)",
        "return self.inner.outputs(stacks, low, high)",
        f"{DENSE}[weight_functions]",
    ),
    # ---- sums
    mutant(
        "factor_of_N",
        "curvature/kronecker",
        "self.outputs.full() / count",
        "self.outputs.full() / (count - 1)",
        f"{HOOKS}",
    ),
    mutant(
        "mean_over_positions_forgotten",
        "curvature/kronecker",
        "mean = total / counts.clamp_min(1)[:, None].to(total.dtype)",
        "mean = total",
        f"{EXACT}[pooled_linear_mean]",
    ),
    mutant(
        "uses_not_added",
        "curvature/capture",
        "total = found if total is None else total + found",
        "total = found",
        f"{DENSE}[reused]",
    ),
    mutant(
        "basis_transposed",
        "curvature/sums",
        "return found.clone() if left is None else left.T.to(found.dtype) @ found",
        "return found.clone() if left is None else left.to(found.dtype) @ found",
        f"{CORRECTED}[tied_autoencoder]",
    ),
    mutant(
        "triangle_not_mirrored",
        "curvature/moments",
        "matrix[stop:, start:stop] = matrix[start:stop, stop:].T",
        "continue",
        "curvature/test_moments.py::test_running_moments_are_those_of_all_rows",
    ),
    mutant(
        "products_are_sums",
        "curvature/products",
        "return total / count\n",
        "return total\n",
        f"{ZOO}test_products_are_the_gauss_newton_matrix[mlp]",
    ),
    mutant(
        "merged_without_its_count",
        "curvature/running",
        "mine.count += theirs.count",
        "mine.count += 0",
        f"{RUNNING}test_merging_is_a_fit_on_both",
    ),
    mutant(
        "old_and_new_swapped",
        "curvature/fitting",
        "decay * capture.terms.count / ((1 - decay) * self.count)",
        "(1 - decay) * capture.terms.count / (decay * self.count)",
        f"{RUNNING}test_decay_averages_old_and_new",
    ),
    # ---- operators
    mutant(
        "omega_on_the_wrong_side",
        "operators/kronecker",
        "Kronecker(plus(G, d**0.5 / omega), plus(A, d**0.5 * omega))",
        "Kronecker(plus(G, d**0.5 * omega), plus(A, d**0.5 / omega))",
        "operators/test_kronecker.py::test_factored_damping_over_damps_and_its_omega_is_the_best",
    ),
    mutant(
        "logdet_of_a_product_with_sizes_swapped",
        "operators/compound",
        "b * self.left.logdet() + a * self.right.logdet()",
        "a * self.left.logdet() + b * self.right.logdet()",
        "operators/test_contract.py::test_logdet",
    ),
    mutant(
        "standard_deviation_for_standard_error",
        "operators/estimates",
        "values.std() / len(values) ** 0.5",
        "values.std()",
        "operators/test_estimates.py",
    ),
    mutant(
        "divergence_with_its_sign",
        "operators/gaussian",
        "+ self.logdet - other.logdet",
        "- self.logdet + other.logdet",
        "operators/test_gaussian.py",
    ),
    # ---- runs, data and verdicts
    mutant(
        "generator_not_restored",
        "recipes/checkpoints",
        "thing.set_state(state)",
        "thing.get_state()",
        "recipes/test_checkpoints.py::test_tensors_and_generators_are_restored_in_place",
    ),
    mutant(
        "lines_after_a_checkpoint_kept",
        "recipes/streams",
        "os.truncate(path, int(size))",
        "os.truncate(path, path.stat().st_size)",
        "recipes/test_streams.py::test_what_was_written_after_a_position_is_dropped",
    ),
    mutant(
        "verdict_of_the_mean_alone",
        "recipes/summary",
        "if target.low <= low and high <= target.high:",
        "if target.low <= summary.mean <= target.high:",
        "recipes/test_summary.py::test_a_verdict_compares_the_two_intervals",
    ),
    mutant(
        "altered_data_trusted",
        "datasets/editions",
        "        if found[name] != expected:",
        "        if False:",
        "datasets/test_editions.py::test_one_changed_byte_of_any_array_is_found",
    ),
    mutant(
        "crop_that_never_reaches_the_far_edge",
        "datasets/augment",
        "torch.randint(-padding, padding + 1,",
        "torch.randint(-padding, padding,",
        "datasets/test_augment.py::test_every_offset_is_equally_probable_and_mirrors_are_a_fair_coin",
    ),
    # ---- Laplace posteriors
    mutant(
        "covariance_divided_twice",
        "prediction/whitening",
        "return self.values.rsqrt()",
        "return self.values.reciprocal()",
        "prediction/test_linearised.py",
    ),
    mutant(
        "directions_without_curvature_forgotten",
        "laplace/spectral",
        "(piece.missing * delta.log() if piece.missing else 0.0)",
        "0.0",
        "laplace/test_few_data.py",
    ),
    mutant(
        "volume_of_the_prior_with_its_sign",
        "laplace/evidence",
        "volume = 0.5 * (self.counts * delta.log()).sum()",
        "volume = -0.5 * (self.counts * delta.log()).sum()",
        "laplace/test_linear_regression.py",
    ),
    mutant(
        "prior_divided_by_the_data",
        "laplace/spectral",
        "return num_data * operator + float(prior.values[0])",
        "return num_data * (operator + float(prior.values[0]))",
        "laplace/test_linear_regression.py",
    ),
]


@pytest.mark.parametrize("planted", MUTANTS, ids=lambda planted: planted.name)
def test_the_named_test_fails_on_the_mutant(planted: Mutant, tmp_path: Path):
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    path = tmp_path / "src" / planted.file
    text = path.read_text(encoding="utf-8")
    assert text.count(planted.right) == 1, f"the patch no longer fits: {planted.right!r} in {planted.file}"
    path.write_text(text.replace(planted.right, planted.wrong), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src"), "OMP_NUM_THREADS": "1"}
    environment.pop("PYTEST_XDIST_WORKER", None)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", planted.test]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ran.returncode == FAILED, f"{planted.test} should fail on this mutant:\n{ran.stdout[-2000:]}"
