"""The log that can be resumed: stopped anywhere, it ends with the lines and the states of a run that never stopped."""

import random
import signal
import time

import pytest
import torch

from paraboloid.recipes.circumstances import Circumstances
from paraboloid.recipes.refused import Refused
from paraboloid.recipes.runlog import RunLog
from paraboloid.recipes.stopping import Interrupted, Stop, listening
from paraboloid.recipes.streams import read


class Power:
    """Fails at the n-th touch: a process that is killed, as far as the folder can tell."""

    class Cut(BaseException):
        pass

    def __init__(self, at=None):
        self.left = at

    def touch(self):
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Power.Cut


def session(folder, recipe, at=None, every=0.0, stop=None):
    """Run as far as the power lasts; True if it came to the end."""
    log = RunLog(folder, Circumstances(checkpoint_seconds=every), stop=stop or Stop())
    torch.manual_seed(0)
    try:
        return recipe(log, Power(at))
    except Power.Cut:
        return None
    finally:
        log.close()


def draw():
    return round(float(torch.rand(())), 6)


def in_sequence(log, power):
    """Two loops, with words before, between and after."""
    log(where="before", draw=draw())
    total, seen = torch.zeros(()), []
    for step in log.loop(4, "one", total=total, seen=seen):
        total += draw()
        seen.append(step)
        log(where="one", step=step, total=total)
        power.touch()
    log(where="between", total=total, seen=len(seen), draw=draw())
    power.touch()
    for step in log.loop(3, "two", total=total, seen=seen):
        total *= 1 + draw()
        seen.append(step)
        log(where="two", step=step, total=total)
        power.touch()
    log(where="after", total=total, draw=draw())
    power.touch()
    return seen


def broken_off(log, power):
    """A first loop that is left by break, an empty one, and a last one."""
    total = torch.zeros(())
    for step in log.loop(9, "search", total=total):
        power.touch()
        total += draw()
        log(where="search", step=step, total=total)
        if step == 2:
            break
    log(where="found", draw=draw())
    for _ in log.loop(0, "nothing", total=total):
        raise AssertionError
    for step in log.loop(4, "use", total=total):
        total += draw()
        log(where="use", step=step, total=total)
        power.touch()
    return [float(total)]


def three(log, power):
    totals = [0.0]
    for number in range(3):
        for step in log.loop(3, f"{number}", totals=totals):
            totals.append(draw())
            log(number=number, step=step, last=totals[-1])
            power.touch()
    return totals


RECIPES = {"in sequence": in_sequence, "broken off": broken_off, "three": three}


def whole(folder, recipe):
    folder.mkdir(parents=True, exist_ok=True)
    result = session(folder, recipe, every=1e9)
    return result, (folder / "metrics.jsonl").read_bytes()


@pytest.mark.parametrize("every", ["always", "sometimes", "rarely"])
@pytest.mark.parametrize("name", RECIPES)
def test_a_run_cut_anywhere_again_and_again_ends_like_one_that_never_was(tmp_path, name, every, monkeypatch):
    expected = whole(tmp_path / "whole", RECIPES[name])
    drawn = random.Random(7)
    for start in range(12):
        folder = tmp_path / str(start)
        folder.mkdir()
        cuts = [start, *(drawn.randrange(0, 6) for _ in range(3)), None]
        for cut in cuts:
            if every == "sometimes":  # a checkpoint after every third step or so
                monkeypatch.setattr(RunLog, "_between_steps", sometimes(RunLog._between_steps, drawn.randrange(1, 5)))
            found = session(folder, RECIPES[name], cut, 1e9 if every == "rarely" else 0.0)
            monkeypatch.undo()
            if found is not None:
                break
        assert (found, (folder / "metrics.jsonl").read_bytes()) == expected


def sometimes(original, period):
    count = [0]

    def between(log, *arguments):
        count[0] += 1
        if count[0] % period == 0:
            original(log, *arguments)

    return between


def test_a_loop_after_one_that_was_left_early_is_resumed_and_not_begun_anew(tmp_path):
    steps = []

    def recipe(log, power):
        for _ in log.loop(5, "short"):
            break
        for step in log.loop(5, "long"):
            steps.append(step)
            power.touch()
        return steps

    session(tmp_path, recipe, 3)
    assert steps == [0, 1, 2, 3]
    steps.clear()
    session(tmp_path, recipe)
    assert steps == [3, 4]


def test_finished_loops_are_not_repeated(tmp_path):
    session(tmp_path, in_sequence, 6)
    assert sorted(path.name for path in tmp_path.glob("loop-*")) == ["loop-0.safetensors", "loop-1.safetensors"]
    touched = []

    class Counting(Power):
        def touch(self):
            touched.append(1)

    log = RunLog(tmp_path, Circumstances())
    in_sequence(log, Counting())
    log.close()
    assert len(touched) == 4  # between the loops, the second loop's last two steps, and after


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("at", range(9))
def test_a_request_to_stop_is_saved_and_resumes_to_the_same_bytes(tmp_path, signum, at):
    expected = whole(tmp_path / "whole", in_sequence)
    folder = tmp_path / "stopped"
    folder.mkdir()
    stop = Stop()

    class Asking(Power):
        def touch(self):
            self.left = at if self.left is None else self.left - 1
            if self.left == 0:
                stop.request(signum)

    log = RunLog(folder, Circumstances(checkpoint_seconds=1e9), stop=stop)
    torch.manual_seed(0)
    if at == 8:  # after the last step
        in_sequence(log, Asking())
    else:
        with pytest.raises(Interrupted, match=f"stopped by {signum.name}") as interrupted:
            in_sequence(log, Asking())
        assert interrupted.value.signum == signum
        # the loop that had ended is saved with the one that goes on
        assert len(list(folder.glob("loop-*"))) == (1 if at < 4 else 2)
    log.close()
    assert (session(folder, in_sequence), (folder / "metrics.jsonl").read_bytes()) == expected


def test_a_second_signal_ends_the_step_at_once_and_signals_mean_what_they_meant_afterwards():
    stop, before = Stop(), signal.getsignal(signal.SIGTERM)
    with listening(stop):
        signal.raise_signal(signal.SIGTERM)
        assert stop.signum == signal.SIGTERM
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is before
    with pytest.raises(Interrupted, match="stopped by SIGTERM"):
        stop.check()


def test_loops_that_nest_are_refused_by_name(tmp_path):
    log = RunLog(tmp_path)
    outer = log.loop(2, "outer")
    assert next(outer) == 0
    with pytest.raises(RuntimeError, match=r"the loop 'inner' begins inside another one.*Use range"):
        next(log.loop(2, "inner"))
    outer.close()
    assert list(log.loop(2, "next")) == [0, 1]
    log.close()


@pytest.mark.parametrize(("label", "count"), [("other", 4), ("one", 5)])
def test_a_loop_of_another_label_or_count_is_refused_by_name(tmp_path, label, count):
    session(tmp_path, in_sequence, 2)
    log = RunLog(tmp_path)
    message = rf"loop-0.safetensors belongs to a loop 'one' of 4 steps, found one called '{label}' of {count}: .*anew"
    with pytest.raises(ValueError, match=message):
        next(log.loop(count, label, total=torch.zeros(()), seen=[]))
    log.close()


def test_a_damaged_checkpoint_or_stream_is_refused_by_name_before_anything_runs(tmp_path):
    session(tmp_path, in_sequence, 3)
    (tmp_path / "metrics.jsonl").write_bytes(b"")
    with pytest.raises(Refused, match=r"metrics.jsonl should hold at least"):
        RunLog(tmp_path)
    path = tmp_path / "loop-0.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(Refused, match=r"loop-0.safetensors .*whole"):
        RunLog(tmp_path)


def test_seconds_accumulate_over_sessions_as_far_as_checkpoints_tell(tmp_path):
    for last in (1, 2):
        log = RunLog(tmp_path, Circumstances(checkpoint_seconds=0.0))
        for step in log.loop(9, "slow"):
            if step == last:
                break
            time.sleep(0.2)
        log.close()
    log = RunLog(tmp_path)
    assert 0.4 <= log.seconds < 30
    log.close()


def test_steps_are_told_with_the_last_one_of_each_loop(tmp_path):
    told = []
    log = RunLog(tmp_path, watch=told.append, cell="c")
    for _ in log.loop(50, "fast"):
        pass
    log.close()
    assert [(e.kind, e.cell, e.label, e.done, e.count) for e in (told[0], told[-1])] == [
        ("step", "c", "fast", 0, 50),
        ("step", "c", "fast", 50, 50),
    ]
    assert len(told) < 50


def test_artefacts_and_data_are_kept(tmp_path):
    class Data:
        name, digest = "invented", "abc"

    log = RunLog(tmp_path)
    log.uses(Data())
    log.keep("weights", {"w": torch.ones(2)}, step=3)
    log.keep("weights", {"w": torch.zeros(2)}, step=4)
    log.close()
    assert log.data == {"invented": "abc"}
    assert [path.name for path in (tmp_path / "artefacts").iterdir()] == ["weights.safetensors"]
    assert read(tmp_path) == []
