"""The same numbers as torchmetrics, where it has the metric and the convention."""

import pytest
import torch
import torchmetrics.functional as tm
import torchmetrics.functional.classification as tmc

from paraboloid.metrics.calibration import (
    expected_calibration_error,
    maximum_calibration_error,
    rms_calibration_error,
)
from paraboloid.metrics.detection import auroc, average_precision, by_label, fpr_at_tpr
from paraboloid.metrics.scores import accuracy, top_k_accuracy

CALIBRATION = {
    "l1": expected_calibration_error,
    "max": maximum_calibration_error,
    "l2": rms_calibration_error,
}


@pytest.fixture
def classified(generator, device):
    """No confidence on the edge of a bin, where torchmetrics closes the bins on the left."""
    p = (2 * torch.randn(500, 4, generator=generator, device=device)).softmax(-1)
    return p, torch.randint(4, (500,), generator=generator, device=device)


@pytest.mark.parametrize("norm", CALIBRATION)
@pytest.mark.parametrize("bins", [5, 15])
def test_calibration_errors_are_torchmetrics(classified, norm, bins):
    """(M.5), (M.6); torchmetrics computes them in float32."""
    expected = tmc.multiclass_calibration_error(*classified, num_classes=4, n_bins=bins, norm=norm)
    assert float(CALIBRATION[norm](*classified, bins=bins)) == pytest.approx(float(expected), abs=1e-6)


def test_accuracies_are_torchmetrics(classified):
    p, y = classified
    for k, found in ((1, accuracy(p, y)), (2, top_k_accuracy(p, y, 2))):
        expected = tmc.multiclass_accuracy(p, y, num_classes=4, average="micro", top_k=k)
        assert float(found) == pytest.approx(float(expected), abs=1e-7)


@pytest.mark.parametrize("decimals", [16, 1])
def test_detection_is_torchmetrics(generator, device, decimals):
    """(M.12), (M.13), (M.14), with and without ties; scores in [0, 1], for it takes others as logits."""
    scores = torch.rand(300, generator=generator, device=device).round(decimals=decimals)
    y = (torch.rand(300, generator=generator, device=device) < 0.3 + 0.4 * scores).long()
    s, r = by_label(scores, y)
    assert float(auroc(s, r)) == pytest.approx(float(tmc.binary_auroc(scores, y)), abs=1e-6)
    assert float(average_precision(s, r)) == pytest.approx(float(tmc.binary_average_precision(scores, y)), abs=1e-6)
    fpr, tpr, _ = tm.roc(scores, y, task="binary")
    assert float(fpr_at_tpr(s, r)) == pytest.approx(float(fpr[tpr >= 0.95 - 1e-7].min()), abs=1e-6)
