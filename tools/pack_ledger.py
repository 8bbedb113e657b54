"""Build hook of the wheel: the ledger's rows, each a file in the checkout, travel as one file.

Rows are much alike. Apart they would be half of the wheel, together they are a tenth of it.
"""

import json
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
            packed = Path(self.made.name) / f"{kind}.json"
            rows = {file.name: json.loads(file.read_text()) for file in files}
            packed.write_text(json.dumps(rows))
            build_data["force_include"][str(packed)] = f"vitbook/_data/{packed.name}"

    def finalize(self, version: str, build_data: dict, artifact_path: str) -> None:
        if version != "editable":
            self.made.cleanup()
