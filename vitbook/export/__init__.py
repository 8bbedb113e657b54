"""Models as files that run without torch: ONNX.

Each file is compared with torch before it is kept. Weights as torch keeps them are `training`'s;
the model that runs in the page is written by `tools/page_graphs.py`, which builds on this room.
"""

from vitbook.export.onnx_file import Exported, ExportError, export_onnx

__all__ = ["ExportError", "Exported", "export_onnx"]
