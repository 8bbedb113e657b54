"""Compile the trainer of the page, by Zig's C compiler: `pip install ziglang==0.13.0`, then this.

The same compiler writes the same bytes, so the compiled file lies beside its source: a notebook on
Colab has no compiler.
"""

import subprocess
import sys
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent / "vitbook" / "trainer"
FLAGS = (
    "--target=wasm32-freestanding",
    *("-O2", "-msimd128", "-mbulk-memory", "-mnontrapping-fptoint"),
    *("-nostdlib", "-Wl,--no-entry", "-Wl,--export-memory", "-s"),
)


def compile_trainer(to: Path, *more: str) -> None:
    source = HOME / "trainer.c"
    command = [sys.executable, "-m", "ziglang", "cc", *FLAGS, *more, "-o", to, source]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    compile_trainer(HOME / "trainer.wasm")
