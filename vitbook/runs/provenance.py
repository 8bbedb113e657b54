"""Who made a row: device, versions, commit, command."""

import os
import platform
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from vitbook.devices import gpu_name

ARCHIVED = "$Format:%H$"  # the commit, in what `git archive` wrote: see .gitattributes


def versions() -> dict[str, str]:
    names = ("torch", "torchvision", "numpy", "vitbook")
    return {"python": platform.python_version()} | {name: _version(name) for name in names}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # a checkout on the path, a torch built by hand
        return "not installed"


def is_archive() -> bool:
    """Whether this code was written by ``git archive``: a pack, a release's zip file."""
    return not ARCHIVED.startswith("$")


def commit() -> str:
    """Of the checkout, with a "+" where tracked files differ from it; "unknown" of a package."""
    if is_archive():
        return ARCHIVED
    here = Path(__file__).resolve()
    git = ["git", "-C", str(here.parent)]
    own = [*git, "ls-files", "--error-unmatch", here.name]  # else it lies in a checkout of others
    try:
        subprocess.run(own, capture_output=True, check=True)
        name = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, check=True)
        changed = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return name.stdout.decode().strip() + ("+" if changed.stdout.strip() else "")


def made_on(device: str | torch.device) -> dict:
    """What every row says of its making: device, versions, commit and command."""
    return {
        "device": device_name(device),
        "versions": versions(),
        "commit": commit(),
        "command": command(),
    }


def command() -> str:
    """As it was typed, but for the folders in front of the program's name and in absolute paths:
    rows travel, and these are nobody's business."""
    name = Path(sys.argv[0]).name
    words = [Path(word).name if os.path.isabs(word) else word for word in sys.argv[1:]]
    return " ".join(["python -m vitbook" if name == "__main__.py" else name, *words])


@cache
def device_name(device: str | torch.device) -> str:
    """ "NVIDIA H200", or the processor's name and the threads that torch uses."""
    if gpu := gpu_name(torch.device(device)):
        return gpu
    name = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                name = line.split(":", 1)[1].strip()
                break
    threads = torch.get_num_threads()
    return f"{name}, {threads} thread{'s' * (threads > 1)}"
