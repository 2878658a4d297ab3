"""One file for tensors and what they mean: safetensors, with JSON in its header.

A file is written under a temporary name, flushed to the disk and then renamed, so a crash leaves the old
file or the new one, never half of one. Reading checks format, version and a checksum of the numbers. There is
no pickle in it, so that a file from anybody may be opened.
"""

from __future__ import annotations

import json
import os
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

FORMAT = "paraboloid"
VERSION = 1


class NotWritten(OSError):
    """A file could not be written (a full disk, no permission); what stood under its name is still there."""

    @classmethod
    def because(cls, path: str | os.PathLike[str], error: Exception) -> NotWritten:
        """The file and the system's reason in one line."""
        reason = getattr(error, "strerror", None) or error
        return cls(f"{path} could not be written: {reason}. Nothing that was saved before is lost.")


def save(path: str | os.PathLike[str], tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> None:
    """Write named tensors and JSON-able metadata to `path`, all or nothing.

    Tuples in the metadata come back as lists, as JSON has them.

    >>> folder = tempfile.TemporaryDirectory()
    >>> save(f"{folder.name}/a.safetensors", {"x": torch.ones(2)}, {"num_data": 7})
    >>> tensors, metadata = load(f"{folder.name}/a.safetensors")
    >>> tensors["x"].tolist(), metadata["num_data"]
    ([1.0, 1.0], 7)
    """
    stored = _storable(tensors)
    header = {
        "format": FORMAT,
        "version": str(VERSION),
        "checksum": str(_checksum(stored)),
        "metadata": _to_json(metadata),
    }
    with replacing(path) as temporary:
        save_file(stored, temporary, metadata=header)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A file to write beside `path`, whose place it takes, flushed to the disk, when the block ends without an error.

    >>> folder = tempfile.TemporaryDirectory()
    >>> with replacing(f"{folder.name}/a.txt") as temporary:
    ...     _ = temporary.write_text("whole")
    >>> os.listdir(folder.name)
    ['a.txt']
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist; create it before saving {path.name}.")
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    except OSError as error:
        raise NotWritten.because(path, error) from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _flush(temporary)
        # mkstemp makes files private; a saved result should be as readable as any other new file
        temporary.chmod(0o666 & ~_umask())
        os.replace(temporary, path)
        _flush(path.parent)
    except (OSError, SafetensorError) as error:
        raise NotWritten.because(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def load(path: str | os.PathLike[str], device: torch.device | str = "cpu") -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors (on `device`) and metadata of a file written by `save`; see there for an example.

    >>> load("nothing.safetensors")
    Traceback (most recent call last):
    FileNotFoundError: there is no file nothing.safetensors.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}.")
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            header = file.metadata() or {}
            _require_ours(path, header)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
        found = _checksum(tensors)
        metadata = json.loads(header["metadata"])
        expected = int(header["checksum"])
    except (SafetensorError, KeyError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path} is not a whole safetensors file ({error}): it is damaged, cut short, or of another "
            "kind. "
            "Save it again with paraboloid."
        ) from error
    if found != expected:
        raise ValueError(
            f"{path} is damaged: the checksum of its numbers should be {expected}, found {found}. Save it again."
        )
    return {name: tensor.to(device) for name, tensor in tensors.items()}, metadata


def _require_ours(path: Path, header: Mapping[str, str]) -> None:
    if header.get("format") != FORMAT:
        raise ValueError(
            f'{path} was not written by paraboloid: its header should say format = "{FORMAT}", found '
            f"{header.get('format')!r}. Read it with safetensors.torch.load_file."
        )
    version = header.get("version", "")
    if not version.isdigit() or not 1 <= int(version) <= VERSION:
        raise ValueError(
            f"{path} has file version {version!r}; this paraboloid reads versions 1 to {VERSION}. "
            "Update paraboloid to read it."
        )


def _storable(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous CPU copies where needed: safetensors refuses strides and shared memory."""
    stored: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise TypeError(f"`tensors` should map str to Tensor, found {name!r}: {type(tensor).__name__}.")
        plain = tensor.detach().to("cpu").contiguous()
        storage = plain.untyped_storage()
        held = plain.numel() * plain.element_size()
        if storage.data_ptr() in seen or storage.nbytes() != held or 0 in plain.stride():
            plain = plain.clone(memory_format=torch.contiguous_format)
        seen.add(plain.untyped_storage().data_ptr())
        stored[name] = plain
    return stored


def _checksum(tensors: Mapping[str, Tensor]) -> int:
    value = 0
    for name in sorted(tensors):
        tensor = tensors[name]
        value = zlib.crc32(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode(), value)
        if tensor.numel():
            value = zlib.crc32(tensor.reshape(-1).view(torch.uint8).numpy().data, value)
    return value


def _to_json(metadata: Mapping[str, Any]) -> str:
    for key, value in metadata.items():
        try:
            json.dumps({key: value})
        except TypeError as error:
            raise TypeError(
                f"metadata[{key!r}] should be made of str, numbers, bool, None, lists and dicts; {error}. "
                "Put tensors among `tensors`."
            ) from error
    return json.dumps(dict(metadata))


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
