"""The metrics stream: whole lines, cut back to where a checkpoint stood; and the memory's log beside it."""

import errno
import json
import math
import os

import pytest
import torch

from paraboloid.recipes import streams
from paraboloid.recipes.log import MemoryLog, Skip
from paraboloid.recipes.streams import Stream
from paraboloid.spaces.storage import NotWritten


def test_lines_come_back_as_they_were_said(tmp_path):
    stream = Stream(tmp_path)
    said = [{"a": 1, "b": 0.1}, {"text": "δ\n", "none": None, "yes": True}, {"x": math.inf, "y": -1e-300}]
    for line in said:
        stream.write(line)
    stream.write({"tensor": torch.tensor([2.5])})
    stream.close()
    assert streams.read(tmp_path) == [*said, {"tensor": 2.5}]
    assert len((tmp_path / "clock.jsonl").read_text().splitlines()) == 4
    assert len((tmp_path / "metrics.jsonl").read_bytes().splitlines()) == 4


def test_no_folder_has_no_lines_and_a_cut_line_is_left_out(tmp_path):
    assert streams.read(tmp_path) == []
    (tmp_path / "metrics.jsonl").write_text('{"a": 1}\n{"a": 2')
    assert streams.read(tmp_path) == [{"a": 1}]


def test_what_was_written_after_a_position_is_dropped(tmp_path):
    first = Stream(tmp_path)
    first.write({"step": 0})
    position = first.position()
    first.write({"step": 1})
    first.write({"step": 2})
    first.close()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 3, "cut')
    second = Stream(tmp_path, tuple(json.loads(json.dumps(position))))
    second.write({"step": 1})
    second.close()
    assert [line["step"] for line in streams.read(tmp_path)] == [0, 1]
    assert len((tmp_path / "clock.jsonl").read_text().splitlines()) == 2


def test_a_stream_without_a_position_begins_anew(tmp_path):
    for _ in range(2):
        stream = Stream(tmp_path)
        stream.write({"step": 0})
        stream.close()
    assert streams.read(tmp_path) == [{"step": 0}]


def test_seconds_go_on_from_the_position(tmp_path):
    stream = Stream(tmp_path, (0, 0, 100.0))
    assert 100 <= stream.seconds < 160
    assert 100 <= stream.position()[2] < 160
    stream.write({})
    assert 100 <= json.loads((tmp_path / "clock.jsonl").read_text()) < 160
    stream.close()


def test_a_stream_that_was_shortened_from_outside_is_refused_by_name(tmp_path):
    (tmp_path / "metrics.jsonl").write_text("{}\n")
    with pytest.raises(ValueError, match=r"metrics.jsonl should hold at least 30 bytes, .* but has 3.*--restart"):
        Stream(tmp_path, (30, 0, 0.0))
    assert (tmp_path / "metrics.jsonl").read_text() == "{}\n"


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_full_disk_is_said_in_one_line(tmp_path, monkeypatch, share):
    stream = Stream(tmp_path)
    stream.write({"step": 0})

    class Full:
        name = str(tmp_path / "metrics.jsonl")

        def write(self, data):
            if share == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return int(share * len(data))

    files = stream._files
    monkeypatch.setattr(stream, "_files", (Full(), files[1]))
    with pytest.raises(NotWritten, match=r"metrics.jsonl could not be written: No space left on device. Nothing"):
        stream.write({"step": 1})
    for file in files:
        file.close()
    assert streams.read(tmp_path) == [{"step": 0}]


@pytest.mark.parametrize("value", [torch.ones(2), {1, 2}, object()], ids=["two elements", "set", "object"])
def test_what_json_cannot_hold_is_an_error_and_leaves_no_line(tmp_path, value):
    stream = Stream(tmp_path)
    with pytest.raises((TypeError, RuntimeError)):
        stream.write({"x": value})
    stream.close()
    assert streams.read(tmp_path) == []


def test_the_log_in_memory_keeps_lines_files_data_and_reasons():
    class Data:
        name, digest = "invented", "abc"

    def cell(config, log):
        if config == 2:
            raise Skip("diverged")
        for step in log.loop(2, kept=[]):
            log(config=config, step=step)
        return {"config": config}

    log = MemoryLog()
    assert log.map(cell, [1, 2, 3]) == [{"config": 1}, None, {"config": 3}]
    assert log.lines == [{"config": c, "step": s} for c in (1, 3) for s in (0, 1)]
    assert log.skipped == ["diverged"]
    log.uses(Data())
    log.keep("a", {"x": torch.ones(1)})
    assert log.data == {"invented": "abc"}
    assert log.files["a"]["x"].item() == 1
