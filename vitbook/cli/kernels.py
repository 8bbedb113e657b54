"""All of the processor's vectors for matrix products, where MKL uses half of them.

MKL, which torch's wheels use on x86-64, takes its AVX-512 kernels on processors that say they are
Intel's, and AVX2 on others that have AVX-512 too. It asks a function of its own; a library loaded
before it that answers "yes" doubles the rate of a matrix product there. Measured in turn on an
AMD EPYC, a training step of `vit_mini_patch4_32` takes 1.56 times less processor time (95 %
interval 1.49 to 1.62); a ResNet's convolutions do not go through MKL and gain nothing. Numbers
change as they do between two processors, in their last digits: so a run keeps to one choice from
its first step to its last, and its row says which.
"""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from vitbook.runs import WIDE_VECTORS

ANSWER = "int mkl_serv_intel_cpu_true(void) { return 1; }\n"
LIBRARY = f"{WIDE_VECTORS}.so"


def helps() -> bool:
    """Whether this machine has the vectors, MKL would not use them, and there is a compiler."""
    about = Path("/proc/cpuinfo")
    if sys.platform != "linux" or platform.machine() != "x86_64" or not about.exists():
        return False
    words = about.read_text()
    return "GenuineIntel" not in words and "avx512f" in words and shutil.which("cc") is not None


def build(folder: Path) -> Path | None:
    """Make the library in a folder, if it helps here; None if it does not, or cannot be made."""
    if not helps():
        return None
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-o", str(folder / LIBRARY), "-"]
    done = subprocess.run(command, input=ANSWER, text=True, capture_output=True)
    return None if done.returncode else folder / LIBRARY


def environment(folder: Path) -> dict[str, str]:
    """What a process is started with whose runs lie in the folder."""
    library = str((folder / LIBRARY).resolve())
    if not Path(library).is_file() or " " in library or ":" in library:  # these part a list
        return {}
    return {"LD_PRELOAD": f"{library} {os.environ.get('LD_PRELOAD', '')}".strip()}
