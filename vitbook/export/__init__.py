"""Models as files that run without torch: ONNX, and the model that runs in the page.

Each file is compared with torch before it is kept. Weights as torch keeps them are `training`'s.
"""

from vitbook.export.onnx_file import Exported, ExportError, export_onnx

__all__ = ["ExportError", "Exported", "export_onnx"]
