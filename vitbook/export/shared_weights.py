"""What the graphs of one model for several sizes have in common: their large weights, once."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import ModelProto

ALIGNED = 64  # where a weight may begin: a runtime may read the file as it lies in memory


class Shared:
    """What graphs have in common.

    Args:
        location: name of the file, as the graphs say it.
        smallest: in bytes; what is smaller stays in its graph.

    Attributes:
        content: of the file.
    """

    def __init__(self, location: str, smallest: int):
        self.location, self.smallest = location, smallest
        self.content = bytearray()
        self._places: dict[bytes, int] = {}

    def move(self, graph: "ModelProto") -> None:
        """Take each large initialiser out of a graph; it says from then on where it lies."""
        from onnx import TensorProto, numpy_helper

        for weight in graph.graph.initializer:
            # As bytes, whichever of its fields held them.
            values = numpy_helper.to_array(weight).tobytes()
            if len(values) < self.smallest:
                continue
            if values not in self._places:
                self.content += bytes(-len(self.content) % ALIGNED)
                self._places[values] = len(self.content)
                self.content += values
            kept = TensorProto(name=weight.name, data_type=weight.data_type, dims=weight.dims)
            kept.data_location = TensorProto.EXTERNAL
            place = (self.location, self._places[values], len(values))
            for key, value in zip(("location", "offset", "length"), place, strict=True):
                kept.external_data.add(key=key, value=str(value))
            weight.CopyFrom(kept)
