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
            # Of one recipe side by side: compression looks back 32 KB. Readers sort by name.
            near = sorted(rows, key=lambda name: (json.dumps(rows[name].get("recipe")), name))
            alike = {name: rows[name] for name in near}
            packed.write_text(json.dumps(alike, separators=(",", ":")))
            build_data["force_include"][str(packed)] = f"vitbook/_data/{packed.name}"

    def finalize(self, version: str, build_data: dict, artifact_path: str) -> None:
        if version != "editable":
            self.made.cleanup()
