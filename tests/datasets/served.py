"""A tiny web server on this machine, and a data set that is small enough to be sent by it."""

import contextlib
import gzip
import http.server
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from datasets.containers import idx
from paraboloid.datasets.editions import Array, Edition, sha256
from paraboloid.datasets.sources import Source


@dataclass
class Web:
    """What is served: bytes by path; a path in `cut` announces more bytes than it sends."""

    base: str = ""
    pages: dict[str, bytes] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)


@contextlib.contextmanager
def web() -> Iterator[Web]:
    served = Web()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked.append(self.path)
            page = served.pages.get(self.path)
            if page is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(page) + 1000 * (self.path in served.cut)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.base = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def small_mnist() -> dict[str, np.ndarray]:
    """Five and three random pictures under the names that mnist.npz has."""
    draws = np.random.default_rng(0)
    images = {"train": draws.integers(0, 256, (5, 28, 28)), "test": draws.integers(0, 256, (3, 28, 28))}
    labels = {"train": np.array([3, 1, 4, 1, 5]), "test": np.array([9, 2, 6])}
    x = {f"x_{part}": array.astype(np.uint8) for part, array in images.items()}
    return x | {f"y_{part}": array.astype(np.uint8) for part, array in labels.items()}


def idx_pages(arrays: dict[str, np.ndarray]) -> dict[str, bytes]:
    stems = {"train": "train", "t10k": "test"}
    return {
        f"/{stem}-{kind}.gz": gzip.compress(idx(arrays[f"{letter}_{part}"]))
        for stem, part in stems.items()
        for kind, letter in (("images", "x"), ("labels", "y"))
    }


def edition_of(arrays: dict[str, np.ndarray]) -> Edition:
    """The edition that exactly these arrays are."""
    return Edition("small", {name: Array(a.shape, a.dtype.str, sha256(a)) for name, a in arrays.items()})


def redirected(source: Source, base: str) -> Source:
    """The same source at another address, its local file names being the paths."""
    return Source({file: f"{base}/{file}" for file in source.urls}, source.convert, source.md5)
