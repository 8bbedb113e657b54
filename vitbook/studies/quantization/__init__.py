"""What the chapter on fewer bits shows: grids, who shares a step, and what is won back."""

from vitbook.studies.quantization.activations import loudness, quantize_between
from vitbook.studies.quantization.folding import fold_batch_norms, layers_of, round_layers
from vitbook.studies.quantization.kept import rows, told
from vitbook.studies.quantization.rounding import input_squares, largest_step, round_by_outputs

__all__ = [
    "fold_batch_norms",
    "input_squares",
    "largest_step",
    "layers_of",
    "loudness",
    "quantize_between",
    "round_by_outputs",
    "round_layers",
    "rows",
    "told",
]
