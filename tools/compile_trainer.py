"""Compile what learns in a page by Zig's C compiler: `pip install ziglang==0.13.0`, then this.

The same compiler writes the same bytes, so a compiled file lies beside its source: a notebook on
Colab has no compiler. Each is there with SIMD, and plain for browsers that have none.
"""

import subprocess
import sys
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent / "vitbook" / "trainer"
FLAGS = (
    "--target=wasm32-freestanding",
    *("-O2", "-fno-unroll-loops", "-mbulk-memory", "-mnontrapping-fptoint"),
    *("-nostdlib", "-Wl,--no-entry", "-Wl,--export-memory", "-s"),
)
# Of each compiled file: its source, and what else it is compiled with.
COMPILED = {
    f"{model}{ending}.wasm": (f"{model}.c", flags)
    for model in ("vit", "resnet")
    for ending, flags in {"": ("-msimd128",), "-plain": ()}.items()
}


def compile_trainer(name: str, folder: Path) -> None:
    """Write one of the compiled files into a folder."""
    source, more = COMPILED[name]
    command = [sys.executable, "-m", "ziglang", "cc", *FLAGS, *more, "-o", folder / name]
    subprocess.run([*command, HOME / source], check=True)
    (folder / name).chmod(0o644)  # a library of functions, no program


if __name__ == "__main__":
    for compiled in COMPILED:
        compile_trainer(compiled, HOME)
