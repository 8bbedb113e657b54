"""Models as files that run without torch."""

from vitbook.export.onnx_file import Exported, ExportError, export_onnx

__all__ = ["ExportError", "Exported", "export_onnx"]
