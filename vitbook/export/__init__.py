"""Models as files that run without torch: ONNX.

Each file is compared with torch before it is kept. Weights as torch keeps them are `training`'s;
the figure that runs a folder of `export_page` is `figures/photo_reader/`, and the book's own model
is written so by `tools/page_graphs.py`.
"""

from vitbook.export.onnx_file import Exported, ExportError, export_onnx
from vitbook.export.page_model import export_page

__all__ = ["ExportError", "Exported", "export_onnx", "export_page"]
