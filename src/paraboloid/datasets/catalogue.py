"""The list of data sets: what each of them is and where it comes from; checking, fetching and loading by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from paraboloid.datasets import bandits, images, regression, simulated, small_digits, strokes, text, turned_faces
from paraboloid.datasets.download import Progress, obtain
from paraboloid.datasets.files import checked, read
from paraboloid.datasets.places import Place, file_name, find
from paraboloid.datasets.sources import SOURCES


@dataclass(frozen=True)
class Entry:
    """One line of the list. `file` is the name of the file it needs, None if it needs none; `megabytes` is its size in
    memory; `licence` is what its source states.

    >>> CATALOGUE["faces"].file, CATALOGUE["curves"].simulated
    ('olivetti_faces', True)
    """

    name: str
    summary: str
    source: str
    licence: str
    file: str | None
    simulated: bool
    megabytes: float
    function: Callable[..., Any]


@dataclass(frozen=True)
class Check:
    """What was found to be in order: the file and its edition, or what is computed without one.

    For instance:

        catalogue.check("mnist").edition        # 'the official files, in their order'
    """

    name: str
    path: Path | None
    edition: str


_UCI = "UCI states CC BY 4.0"
_OURS = "no data of others"
_NONE = "none stated"


def _file(
    name: str, function: Callable[..., Any], megabytes: float, summary: str, source: str, licence: str, file: str = ""
) -> Entry:
    return Entry(name, summary, source, licence, file or name, False, megabytes, function)


def _computed(name: str, function: Callable[..., Any], megabytes: float, summary: str) -> Entry:
    return Entry(name, summary, "simulated", _OURS, None, True, megabytes, function)


_MNIST = ("LeCun, Cortes, Burges", "usually quoted as CC BY-SA 3.0")
_FACES = ("AT&T Laboratories Cambridge", f"{_NONE}; citation asked")
_KRIZHEVSKY = ("Krizhevsky", f"{_NONE}; citation asked")

CATALOGUE: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        _file("mnist", images.mnist, 55, "70,000 handwritten digits, 28 × 28", *_MNIST),
        _file(
            "fashion_mnist", images.fashion_mnist, 55, "70,000 pictures of clothes, 28 × 28", "Zalando Research", "MIT"
        ),
        _file("notmnist", images.notmnist, 15, "18,724 letters A to J, 28 × 28", "Y. Bulatov", _NONE),
        _file("cifar10", images.cifar10, 184, "60,000 colour pictures in 10 classes, 32 × 32", *_KRIZHEVSKY),
        _file("cifar100", images.cifar100, 184, "60,000 colour pictures in 100 classes, 32 × 32", *_KRIZHEVSKY),
        _file(
            "svhn",
            images.svhn,
            305,
            "99,289 house numbers in colour, 32 × 32",
            "Netzer et al.",
            "non-commercial use only",
        ),
        _file("olivetti", images.olivetti, 2, "400 faces of 40 people, 64 × 64", *_FACES, "olivetti_faces"),
        _file(
            "faces",
            turned_faces.faces,
            104,
            "FACES: Olivetti faces turned and scaled, 25 × 25",
            *_FACES,
            "olivetti_faces",
        ),
        _file("projected_mnist", simulated.projected_mnist, 1, "MNIST projected to 10 dimensions", *_MNIST, "mnist"),
        Entry(
            "digits",
            "1,797 digits, 8 × 8",
            "scikit-learn",
            f"BSD 3-clause package; UCI's digits, {_UCI}",
            None,
            False,
            0.1,
            small_digits.digits,
        ),
        _computed("curves", strokes.curves, 24, "CURVES: strokes through random points, 28 × 28"),
        _computed("toy_cubic", simulated.toy_cubic, 0.1, "y = x³ with noise, 20 points"),
        _computed("griewank", simulated.griewank, 0.5, "a noisy Griewank function of two variables"),
        _computed("logistic", simulated.logistic, 0.2, "logistic regression with one relevant input"),
        _computed("wheel", bandits.wheel, 0.1, "the wheel bandit: 2 numbers, 5 arms"),
        _file("mushroom", bandits.mushroom, 4, "bandit: 8,124 mushrooms, 117 columns, 2 arms", "UCI 73", _UCI),
        _file("shuttle", bandits.shuttle, 3, "bandit: 58,000 shuttle states, 9 columns, 7 arms", "UCI 148", _UCI),
        _file(
            "covertype", bandits.covertype, 130, "bandit: 581,012 forest patches, 54 columns, 7 arms", "UCI 31", _UCI
        ),
        _file(
            "census", bandits.census, 17, "bandit: 45,222 people, 92 columns, 14 arms", "UCI 2 (Adult)", _UCI, "adult"
        ),
        _file(
            "uci_regression",
            regression.uci_regression,
            7,
            "nine regressions with their 20 (5) splits",
            "UCI, StatLib, DELVE; splits by Y. Gal",
            "splits CC BY-NC 4.0; tables CC BY 4.0, boston and kin8nm none stated",
        ),
        _file(
            "tinyshakespeare",
            text.tinyshakespeare,
            9,
            "1.1 million characters of Shakespeare",
            "A. Karpathy's char-rnn",
            "MIT; the text is in the public domain",
        ),
    )
}


def entry(name: str) -> Entry:
    """The line of a data set; an unknown name raises ValueError with the nearest ones.

    >>> entry("mnits")
    Traceback (most recent call last):
    ValueError: there is no data set 'mnits'; did you mean mnist...? All names: mnist, ...
    """
    if name in CATALOGUE:
        return CATALOGUE[name]
    near = difflib.get_close_matches(name, CATALOGUE, n=3, cutoff=0.5)
    meant = f"; did you mean {' or '.join(near)}?" if near else "."
    raise ValueError(f"there is no data set {name!r}{meant} All names: {', '.join(CATALOGUE)}.")


def available(name: str) -> Place:
    """Where a data set would come from: a file that is here, scikit-learn, the network, or nowhere but a computation.

    >>> available("curves").kind
    'simulated'
    """
    listed = entry(name)
    if listed.file is not None:
        return find(listed.file) or Place("online" if listed.file in SOURCES else "nowhere")
    if listed.simulated:
        return Place("simulated")
    return Place("scikit-learn" if find_spec("sklearn") else "nowhere")


def check(name: str) -> Check:
    """Verify a data set that is here, without the network: every byte of its file against the known digests.

    DatasetMissing if there is no file, DatasetAltered if it is another one than it should be.

    >>> check("curves").edition
    'simulated'
    """
    listed = entry(name)
    if listed.file is not None:
        file = checked(listed.file, download=False)
        return Check(name, file.path, file.edition.name)
    if not listed.simulated:
        listed.function()
    return Check(name, None, str(available(name)))


def get(name: str, progress: Progress | None = None) -> Path | None:
    """See to it that the file of a data set is here and in order; the path, or None if it needs no file.

    `progress(bytes done, bytes in all or None)` is called for each file that is downloaded.

    >>> get("curves") is None
    True
    """
    listed = entry(name)
    if listed.file is None:
        return None
    place = find(listed.file)
    path = place.path if place is not None and place.path is not None else obtain(listed.file, progress)
    return read(listed.file, path).path


def load(name: str, **options: Any) -> Any:
    """The data set of this name; `options` are the arguments of its function.

    >>> load("toy_cubic", num=5).train.x.shape
    torch.Size([5, 1])
    """
    return entry(name).function(**options)


def needed_files() -> list[str]:
    """The file names, with endings, that a complete PARABOLOID_DATA folder holds.

    >>> needed_files()[:2]
    ['adult.npz', 'cifar10.npz']
    """
    return sorted({file_name(listed.file) for listed in CATALOGUE.values() if listed.file is not None})
