"""Computed data: what they should be distributed as, and pictures against slow definitions."""

import math

import numpy as np
import pytest
import torch

from datasets.served import edition_of
from paraboloid.datasets import curves, faces, griewank, griewank_function, logistic, toy_cubic, wheel
from paraboloid.datasets.known import KNOWN
from paraboloid.datasets.strokes import draw_curves
from paraboloid.datasets.turned_faces import draw_pairs, turned

SIMULATED = {
    "toy_cubic": toy_cubic,
    "griewank": griewank,
    "logistic": logistic,
    "curves": lambda **options: curves(train=6, test=3, **options),
    "wheel": wheel,
}


@pytest.mark.parametrize("name", SIMULATED)
def test_simulated_data_are_the_same_at_every_call_and_follow_the_generator(name):
    make = SIMULATED[name]
    same = [make().digest, make().digest, make(generator=torch.Generator().manual_seed(0)).digest]
    assert len(set(same)) == 1
    assert make(generator=torch.Generator().manual_seed(1)).digest != same[0]


@pytest.mark.parametrize("name", SIMULATED)
def test_simulated_data_leave_the_global_generator_alone_and_do_not_depend_on_the_default_type(name, single_precision):
    before = torch.get_rng_state()
    digest = SIMULATED[name]().digest
    assert torch.equal(before, torch.get_rng_state())
    torch.set_default_dtype(torch.float64)
    assert SIMULATED[name]().digest == digest


def test_the_toy_regression_is_a_cube_with_noise_of_sd_3():
    data = toy_cubic()
    assert [len(part) for part in (data.train, data.validation, data.test)] == [20, 20, 241]
    many = toy_cubic(num=100_000)
    x, y = (t.double() for t in many.train)
    noise = y - x**3
    n = len(x)
    assert x.abs().max() <= 4
    assert abs(x.mean()) < 5 * 8 / math.sqrt(12 * n)
    assert abs(noise.mean()) < 5 * 3 / math.sqrt(n)
    assert abs(noise.var() / 9 - 1) < 5 * math.sqrt(2 / n)
    assert not torch.equal(many.train.x, many.validation.x)
    assert torch.allclose(data.test.y, data.test.x**3)


def test_the_griewank_function_is_0_at_the_origin_and_1_plus_the_bowl_where_a_cosine_vanishes():
    x = torch.tensor([[0.0, 0.0], [math.pi / 2, 3.0], [math.pi, 0.0], [0.0, math.pi * math.sqrt(2)]])
    expected = torch.tensor([0.0, 1 + (math.pi**2 / 4 + 9) / 4000, 2 + math.pi**2 / 4000, 2 + 2 * math.pi**2 / 4000])
    assert torch.allclose(griewank_function(x), expected)


def test_griewank_points_fill_the_box_and_carry_the_noise_in_both_parts():
    data = griewank()
    low, high = torch.tensor([-7.5, -2.5]), torch.tensor([-5.0, 15.0])
    for x, y in (data.train, data.test):
        assert ((x >= low) & (x <= high)).all()
        n = len(x)
        assert ((x.double().mean(0) - (low + high) / 2).abs() < 5 * (high - low) / math.sqrt(12 * n)).all()
        noise = y[:, 0].double() - griewank_function(x.double())
        assert abs(noise.var() / 0.01 - 1) < 5 * math.sqrt(2 / n)
        assert abs(noise.mean()) < 5 * 0.1 / math.sqrt(n)
    wide = griewank(box=((-7.5, 5.0), (-2.5, 15.0)), noise_sd=0.0)
    assert wide.train.x[:, 0].max() > 0
    assert torch.allclose(wide.train.y[:, 0].double(), griewank_function(wide.train.x.double()), atol=1e-6)


@pytest.mark.parametrize("dimensions", [2, 64])
def test_logistic_labels_follow_the_first_input_alone(dimensions):
    data = logistic(dimensions, train=50_000, weight=2.0)
    x, y = (t.double() for t in data.train)
    assert x.shape == (50_000, dimensions)
    assert set(y.unique().tolist()) == {0.0, 1.0}
    p = torch.sigmoid(2 * x[:, 0])
    residual = (y[:, 0] - p)[:, None] * x
    spread = ((p * (1 - p))[:, None] * x**2).sum(0).sqrt()
    assert (residual.sum(0).abs() < 5 * spread).all()
    assert ((x.var(0) - 1).abs() < 5 * math.sqrt(2 / 50_000)).all()


def test_the_paper_s_logistic_problem_is_the_default():
    data = logistic()
    assert (data.train.x.shape, data.train.y.shape, len(data.test)) == ((1000, 2), (1000, 1), 10_000)
    signs = data.test.x[:, 0] > 0
    assert (signs == data.test.y[:, 0].bool()).float().mean() > 0.95


def drawn_slowly(points):
    """One curve: the distance of each pixel to 4,000 places of it."""
    t = np.linspace(0, 1, 4000)[:, None]
    a, b, c = points
    places = (1 - t) ** 2 * a + 2 * t * (1 - t) * b + t**2 * c
    i, j = np.meshgrid(np.arange(28) + 0.5, np.arange(28) + 0.5, indexing="ij")
    distance = np.sqrt((j[..., None] - places[:, 0]) ** 2 + (i[..., None] - places[:, 1]) ** 2).min(-1)
    return 255 * np.clip(1.25 - distance, 0, 1)


def test_a_curve_is_drawn_by_the_distance_to_it():
    data = curves(train=12, test=1)
    for picture, points in zip(data.train.x[:, 0], data.train.y, strict=True):
        slow = drawn_slowly(points.double().reshape(3, 2).numpy())
        # chords are at most 0.03 pixels away from the curve
        assert np.abs(picture.numpy() - slow).max() < 0.03 * 255 + 1


def test_a_curve_of_equal_points_is_a_dot():
    picture = draw_curves(torch.full((1, 3, 2), 14.5))[0, 0]
    assert picture[14, 14] == 255
    assert (picture > 0).sum() == 9 - 4 * (2**0.5 > 1.25)


def test_curves_touch_no_border_and_use_the_whole_range_of_grey():
    x = curves(train=300, test=1).train.x
    assert x.amax() == 255
    assert not x[:, :, [0, -1]].any()
    assert not x[:, :, :, [0, -1]].any()


def test_the_first_curves_do_not_depend_on_how_many_are_drawn_together():
    points = 2 + 24 * torch.rand(300, 3, 2, generator=torch.Generator().manual_seed(0))
    assert torch.equal(draw_curves(points)[:7], draw_curves(points[:7]))


def seen_slowly(picture, angle, scale):
    """The 50 × 50 middle of the turned and enlarged picture, pixel by pixel, then means of 2 × 2."""
    middle = np.zeros((50, 50))
    for i in range(50):
        for j in range(50):
            down, right = (i - 24.5) / scale, (j - 24.5) / scale
            # what appears at (down, right) stood, before turning clockwise, at the same place turned back
            row = 31.5 + math.cos(angle) * down - math.sin(angle) * right
            column = 31.5 + math.sin(angle) * down + math.cos(angle) * right
            r, c = math.floor(row), math.floor(column)
            u, v = row - r, column - c
            upper = (1 - v) * picture[r, c] + v * picture[r, c + 1]
            lower = (1 - v) * picture[r + 1, c] + v * picture[r + 1, c + 1]
            middle[i, j] = (1 - u) * upper + u * lower
    return middle.reshape(25, 2, 25, 2).mean((1, 3))


def test_faces_are_turned_and_scaled_as_a_pixel_by_pixel_oracle_says():
    x = torch.randint(0, 256, (2, 1, 64, 64), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    angles, scales = torch.tensor([0.0, 0.7, -math.pi / 2]), torch.tensor([1.4, 1.55, 1.8])
    made = turned(x, angles, scales)
    assert (made.shape, made.dtype) == ((6, 1, 25, 25), torch.uint8)
    for place, (angle, scale) in enumerate(zip(angles.tolist(), scales.tolist(), strict=True)):
        for n in range(2):
            slow = seen_slowly(x[n, 0].double().numpy(), angle, scale)
            assert np.abs(made[2 * place + n, 0].numpy() - slow).max() < 0.51


def test_angles_and_scales_are_uniform_in_the_thesis_s_ranges():
    angles, scales = draw_pairs(20_000, torch.Generator().manual_seed(0))
    for drawn, low, high in ((angles, -math.pi / 2, math.pi / 2), (scales, 1.4, 1.8)):
        assert low <= drawn.min() and drawn.max() <= high
        width = high - low
        assert abs(drawn.mean() - (low + high) / 2) < 5 * width / math.sqrt(12 * 20_000)
        # the square of a centred uniform has mean w²/12 and variance w⁴/180
        assert abs(drawn.var() - width**2 / 12) < 5 * width**2 / math.sqrt(180 * 20_000)
    with pytest.raises(ValueError, match="`pairs` should be at least 1, found 0"):
        draw_pairs(0, torch.Generator())


def test_faces_run_through_the_people_for_each_pair_in_turn(cache, tmp_path, monkeypatch):
    pictures = np.random.default_rng(0).integers(0, 256, (400, 64, 64)).astype(np.uint8)
    arrays = {"x": pictures, "y": (np.arange(400) // 10).astype(np.uint8)}
    monkeypatch.setenv("PARABOLOID_DATA", str(tmp_path))
    monkeypatch.setitem(KNOWN, "olivetti_faces", (edition_of(arrays),))
    np.savez(tmp_path / "olivetti_faces.npz", **arrays)
    data = faces(pairs=3)
    angles, scales = draw_pairs(3, torch.Generator().manual_seed(0))
    for part, people in ((data.train, range(25)), (data.validation, range(25, 30)), (data.test, range(30, 40))):
        assert part.y.tolist() == 3 * [person for person in people for _ in range(10)]
        for place in (0, len(part) // 3 + 7, len(part) - 1):
            pair, picture = divmod(place, len(part) // 3)
            original = torch.from_numpy(pictures[people[0] * 10 + picture])[None, None]
            alone = turned(original, angles[pair : pair + 1], scales[pair : pair + 1])
            assert torch.equal(part.x[place], alone[0])


def test_a_positive_angle_turns_clockwise():
    x = torch.zeros(1, 1, 64, 64, dtype=torch.uint8)
    x[:, :, :32] = 200
    quarter = turned(x, torch.tensor([math.pi / 2]), torch.tensor([1.5]))[0, 0]
    assert quarter[:, -12:].eq(200).all()
    assert quarter[:, :12].eq(0).all()


def test_an_impossible_size_is_refused():
    with pytest.raises(ValueError, match="`dimensions` should be at least 1, found 0"):
        logistic(0)
    with pytest.raises(ValueError, match="`delta` should be a radius inside the unit disk, between 0 and 1, found 1"):
        wheel(delta=1)
