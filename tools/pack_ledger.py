"""Build hook of the wheel: the ledger's rows, each a file in the checkout, travel as one file.

Rows are much alike, of one recipe or of many. Apart they would be most of the wheel; together, and
packed by something that looks back further than the wheel's own compression, they are a fifth.
"""

import json
import lzma
import tempfile
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

KINDS = ("results", "measurements")


class LedgerHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict) -> None:
        if version == "editable":  # which reads the checkout
            return
        self.made = tempfile.TemporaryDirectory()
        for kind in KINDS:
            files = sorted((Path(self.root) / "data" / kind).glob("*.json"))
            packed = Path(self.made.name) / f"{kind}.json.xz"
            rows = {file.name: json.loads(file.read_text()) for file in files}
            text = json.dumps(rows, separators=(",", ":"))
            packed.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
            build_data["force_include"][str(packed)] = f"vitbook/_data/{packed.name}"

    def finalize(self, version: str, build_data: dict, artifact_path: str) -> None:
        if version != "editable":
            self.made.cleanup()
