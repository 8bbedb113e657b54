"""Lay the pretrained model, and the runtime that computes it, beside the pages that show it."""

import hashlib
import json
import shutil
import zlib
from pathlib import Path

from vitbook.export import page_manifest
from vitbook.export.page_runtime import PACKAGE, RUNTIME, VERSION, fetched_runtime
from vitbook.files import write_atomically

NOTICE = """\
The files in this folder are not all of one author.

*.onnx, weights-*.bin: made by vitbook's `tools/page_graphs.py` from {about}.
  DINOv2 is of Meta AI, and EfficientNet-Lite of Google; both under the Apache License 2.0. The
  linear heads are of vitbook, MIT.
ort*: onnxruntime-web {version}, as it came. Copyright (c) Microsoft Corporation, MIT.
What ends in .packed is the same file, deflated.

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


def lay(root: Path) -> None:
    """Write ``_build/html/_model``; what was made before from the same sources is taken as it is.

    The book is whole without it: where something cannot be fetched, the page says so. The runtime
    alone computes a model of the reader's own.
    """
    target, made = root / "_build" / "html" / "_model", root / "_build" / "page_model"
    shutil.rmtree(target, ignore_errors=True)
    manifest: dict = {"packed": {}}

    def pack(file: str, content: bytes) -> None:
        packed = zlib.compress(content, 9)
        write_atomically(target / f"{file}.packed", packed)
        manifest["packed"][file] = len(packed)

    try:
        runtime = fetched_runtime()
        for module, binary in RUNTIME.values():
            write_atomically(target / module, (runtime / module).read_bytes())
            pack(binary, (runtime / binary).read_bytes())
        manifest["runtime"] = {
            kind: {"module": module, "binary": binary, **_about((runtime / binary).read_bytes())}
            for kind, (module, binary) in RUNTIME.items()
        }
        about, files = _made(root, made)
        manifest |= about
    except (ConnectionError, ValueError, OSError, ImportError) as error:
        print(f"  the model of the page is left out: {error}", flush=True)
        manifest["missing"] = str(error)
    else:
        for file, content in files.items():
            pack(file, content)
        notice = NOTICE.format(version=VERSION, about=manifest["about"])
        (target / "NOTICE.txt").write_text(notice)
    # By it a browser knows whether what it kept is of this model.
    manifest["digest"] = hashlib.sha256(json.dumps(manifest).encode()).hexdigest()[:16]
    write_atomically(target / page_manifest.FILE, json.dumps(manifest).encode())
    megabytes = sum(file.stat().st_size for file in target.iterdir()) / 1e6
    print(f"  the model of the page, and {PACKAGE}: {megabytes:.0f} MB", flush=True)


def _made(root: Path, made: Path) -> tuple[dict, dict[str, bytes]]:
    """The model's manifest and its files, which are written anew where its sources have changed."""
    own = Path(__file__).with_name("page_graphs.py").read_bytes()
    sources = (root / "_build" / "sources.sha256").read_text() + hashlib.sha256(own).hexdigest()
    kept = made / "sources"
    if not kept.exists() or kept.read_text() != sources:
        from page_graphs import write_page_model

        shutil.rmtree(made, ignore_errors=True)
        write_page_model(made)
        kept.write_text(sources)
    return page_manifest.read_page_model(made)


def _about(content: bytes) -> dict[str, int | str]:
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
