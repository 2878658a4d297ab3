"""Files: what was saved comes back, whole or not at all."""

import json
import os

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from paraboloid.spaces import storage

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool]


def test_tensors_and_metadata_come_back(tmp_path, device):
    path = tmp_path / "a.safetensors"
    tensors = {str(dtype): torch.arange(6, device=device).reshape(2, 3).to(dtype) for dtype in DTYPES}
    tensors |= {"scalar": torch.tensor(3.5, device=device), "empty": torch.zeros(0, 2, device=device)}
    metadata = {"a": 1, "b": [1.5, None, True], "c": {"δ": "text"}}
    storage.save(path, tensors, metadata)
    loaded, found = storage.load(path, device)
    assert found == metadata
    assert loaded.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert loaded[name].dtype == tensor.dtype
        assert loaded[name].device.type == device.type
        assert torch.equal(loaded[name], tensor)


def test_views_and_shared_memory_are_copied(tmp_path):
    whole = torch.arange(12.0).reshape(3, 4)
    views = {"whole": whole, "same": whole, "transposed": whole.mT, "row": whole[1], "column": whole[:, 1]}
    storage.save(tmp_path / "a", views, {})
    loaded, _ = storage.load(tmp_path / "a")
    assert all(torch.equal(loaded[name], tensor) for name, tensor in views.items())


def test_gradients_are_left_behind(tmp_path):
    storage.save(tmp_path / "a", {"x": torch.ones(2, requires_grad=True)}, {})
    assert not storage.load(tmp_path / "a")[0]["x"].requires_grad


def test_the_file_is_a_safetensors_file_with_json_in_its_header(tmp_path):
    storage.save(tmp_path / "a", {"x": torch.ones(2)}, {"n": 3})
    with safe_open(tmp_path / "a", framework="pt") as file:
        header = file.metadata()
    assert header["format"] == "paraboloid"
    assert json.loads(header["metadata"]) == {"n": 3}


def test_a_save_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "a"
    storage.save(path, {"x": torch.zeros(2)}, {"version": "old"})

    def broken(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="disk full"):
        storage.save(path, {"x": torch.ones(2)}, {"version": "new"})
    assert storage.load(path)[1] == {"version": "old"}
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_saving_replaces(tmp_path):
    for k in range(2):
        storage.save(tmp_path / "a", {"x": torch.full((2,), float(k))}, {"k": k})
    assert storage.load(tmp_path / "a")[1] == {"k": 1}


def test_the_file_can_be_read_by_others_as_the_umask_allows(tmp_path):
    (tmp_path / "plain").write_text("")
    storage.save(tmp_path / "a", {}, {})
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("place", ["header", "numbers", "end"])
def test_damaged_files_are_recognised(tmp_path, place):
    path = tmp_path / "a"
    storage.save(path, {"x": torch.arange(100.0)}, {"k": 1})
    content = bytearray(path.read_bytes())
    if place == "header":
        content[3:12] = b"\xff" * 9
    elif place == "numbers":
        content[-300] ^= 1
    else:
        content = content[:-8]
    path.write_bytes(content)
    with pytest.raises(ValueError, match="damaged"):
        storage.load(path)


def test_foreign_files_are_recognised(tmp_path):
    save_file({"x": torch.ones(1)}, tmp_path / "foreign", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r'not written by paraboloid: .* format = "paraboloid", found \'pt\''):
        storage.load(tmp_path / "foreign")
    save_file({"x": torch.ones(1)}, tmp_path / "bare")
    with pytest.raises(ValueError, match="not written by paraboloid"):
        storage.load(tmp_path / "bare")
    (tmp_path / "text").write_text("not tensors at all, but quite some text")
    with pytest.raises(ValueError, match="damaged, cut short, or of another kind"):
        storage.load(tmp_path / "text")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        storage.load(tmp_path / "nothing")


def test_files_of_a_later_version_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "VERSION", 2)
    storage.save(tmp_path / "a", {}, {})
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"version '2'; this paraboloid reads versions 1 to 1. Update"):
        storage.load(tmp_path / "a")


def test_what_cannot_be_written_is_named(tmp_path):
    with pytest.raises(TypeError, match=r"metadata\['x'\] should be made of str.*Put tensors among"):
        storage.save(tmp_path / "a", {}, {"x": torch.ones(1)})
    with pytest.raises(TypeError, match="map str to Tensor, found 'x': float"):
        storage.save(tmp_path / "a", {"x": 1.0}, {})
    with pytest.raises(FileNotFoundError, match="does not exist; create it"):
        storage.save(tmp_path / "no" / "a", {}, {})
    assert not list(tmp_path.iterdir())
