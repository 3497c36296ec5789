"""Training scripts that others wrote: files of source distributions on PyPI, taken by version and hash, never changed."""

import hashlib
import io
import re
import struct
import tarfile
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path

# What the scripts import beside their own package.
REQUIREMENTS = ["torchvision==0.28.0", "pillow", "tqdm", "scipy", "opt_einsum", "packaging"]


@dataclass(frozen=True)
class Script:
    """`archive` on PyPI has the hash `sha256` and holds `script`, which runs with `arguments` in a folder with `data`."""

    project: str
    archive: str
    sha256: str
    script: str
    arguments: str
    sources: str = ""  # folder of the archive to import the project from
    data: tuple[str, ...] = ()  # prefixes of MNIST files to make

    @property
    def folder(self) -> str:
        return self.archive.removesuffix(".tar.gz")


MNIST = ("MNIST/raw/train", "MNIST/raw/t10k")
SCRIPTS = [
    Script("pytorch-warmup", "pytorch_warmup-0.2.0.tar.gz", "da01fef6a75a0db3502f5566957ec3d28fc6d754bf5cceba3165815411a7278f",
           "examples/emnist/main.py", "--epochs 1 --batch-size 16 --log-interval 2", ".",
           ("data/EMNIST/raw/emnist-balanced-train", "data/EMNIST/raw/emnist-balanced-test")),
    Script("opacus", "opacus-1.6.0.tar.gz", "20d77252c1e8528cd5826fbaba345cd39ed5c3edb841707eafb6403fe276140a",
           "examples/mnist.py", "--disable-dp --epochs 2 --batch-size 16 --data-root .", ".", MNIST),
    Script("pytorch-ignite", "pytorch_ignite-0.5.3.tar.gz", "75c645f02fea66cc80c1998ade3f8402e0e6b6d73f3f4ad727c171f6e93874f4",
           "examples/gan/dcgan.py", "--dataset fake --dataroot . --output-dir out --seed 1 --workers 0 --batch-size 4 "
           "--epochs 2 --g-filters 4 --d-filters 4 --z-dim 8", "."),
    Script("opacus", "opacus-1.6.0.tar.gz", "20d77252c1e8528cd5826fbaba345cd39ed5c3edb841707eafb6403fe276140a",
           "examples/dcgan.py", "--disable-dp --data-root . --outf out --epochs 1 --batch-size 4 --ngf 4 --ndf 4 --manualSeed 1",
           ".", MNIST),
]  # fmt: skip


class Unreachable(Exception):
    """PyPI cannot be reached."""


def fetch(script: Script, folder: Path) -> Path:
    """Unpacks the archive below `folder` and returns its top folder. A wrong hash is an error."""
    index = f"https://pypi.org/simple/{script.project}/"
    try:
        page = urllib.request.urlopen(index, timeout=60).read().decode()
        link = next(link for link in re.findall(r'href="([^"#]+)', page) if link.endswith("/" + script.archive))
        data = urllib.request.urlopen(urllib.parse.urljoin(index, link), timeout=120).read()
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        raise Unreachable(str(error)) from error
    assert hashlib.sha256(data).hexdigest() == script.sha256, f"{script.archive} is not the file that was examined"
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # since Python 3.11.4
    return next(path for path in folder.iterdir() if path.is_dir())


def write_digits(folder: Path, prefixes: tuple[str, ...], count: int = 96) -> None:
    """Files in MNIST's format with ten noisy patterns, in place of a download."""
    import numpy

    random = numpy.random.default_rng(0)
    patterns = random.integers(0, 200, (10, 28, 28))
    for prefix in prefixes:
        labels = random.integers(0, 10, count)
        images = (patterns[labels] + random.integers(0, 55, (count, 28, 28))).astype(numpy.uint8)
        path = folder / prefix
        path.parent.mkdir(parents=True, exist_ok=True)
        Path(f"{path}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, count, 28, 28) + images.tobytes())
        Path(f"{path}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, count) + labels.astype(numpy.uint8).tobytes())
