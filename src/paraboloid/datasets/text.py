"""Text as numbers: one token per character."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from paraboloid.datasets.files import checked
from paraboloid.datasets.record import Device, Split, digest_of, on


@dataclass(frozen=True)
class Text:
    """Token ids (int64) of three consecutive parts of a text, and its vocabulary in the order of the ids.

    >>> text = Text("toy", *(torch.tensor([0, 1]),) * 3, ("a", "b"), "", "")
    >>> text.decode(text.encode("abba"))
    'abba'
    """

    name: str
    train: Tensor
    validation: Tensor
    test: Tensor
    vocabulary: tuple[str, ...]
    note: str
    digest: str

    def encode(self, text: str) -> Tensor:
        ids = {character: place for place, character in enumerate(self.vocabulary)}
        unknown = sorted(set(text) - set(ids))
        if unknown:
            raise ValueError(f"every character should be in the vocabulary; found {unknown}. Leave them out.")
        return torch.tensor([ids[character] for character in text], dtype=torch.int64, device=self.train.device)

    def decode(self, tokens: Tensor) -> str:
        return "".join(self.vocabulary[token] for token in tokens.tolist())

    def to(self, device: Device) -> Text:
        return on(self, device)


def windows(tokens: Tensor, starts: Tensor, length: int) -> Split:
    """Pieces of a text (B, length) from the given places on, and the token that follows each of their tokens.

    >>> piece = windows(torch.arange(9), torch.tensor([0, 5]), 3)
    >>> piece.x.tolist(), piece.y.tolist()
    ([[0, 1, 2], [5, 6, 7]], [[1, 2, 3], [6, 7, 8]])
    """
    if not 0 < length < len(tokens):
        raise ValueError(f"`length` should lie between 1 and {len(tokens) - 1}, found {length}.")
    places = starts[:, None] + torch.arange(length, device=tokens.device)
    return Split(tokens[places], tokens[places + 1])


def tinyshakespeare(*, device: Device = "cpu", download: bool = True) -> Text:
    """1,115,394 characters of Shakespeare, 65 different ones: the first 90 % for training, then 5 % and 5 %.

    text = tinyshakespeare()
    text.decode(text.train[:14])                    # 'First Citizen:'
    """
    raw = checked("tinyshakespeare", download).arrays["text"]
    levels, ids = np.unique(raw, return_inverse=True)
    tokens = torch.from_numpy(ids.astype(np.int64))
    first, second = len(tokens) * 90 // 100, len(tokens) * 95 // 100
    made = Text(
        "tinyshakespeare",
        *tokens.tensor_split([first, second]),
        vocabulary=tuple(chr(level) for level in levels),
        note="characters in the order of their codes; 90 % for training, then 5 % validation, 5 % test",
        digest=digest_of({"tokens": tokens, "vocabulary": torch.from_numpy(levels)}),
    )
    return made.to(device)
