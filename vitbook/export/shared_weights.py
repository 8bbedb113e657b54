"""Weights of several ONNX graphs in one file beside them, each stored once."""

from collections.abc import Mapping

from vitbook.extras import from_extra

with from_extra("export"):
    from onnx import ModelProto, TensorProto, numpy_helper

# Where a weight may begin: a runtime may read the file as it lies in memory.
ALIGNED = 64


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

    def move(self, graph: ModelProto) -> None:
        """Take each large initialiser out of a graph; it says from then on where it lies."""
        for weight in graph.graph.initializer:
            # As bytes, whichever of its fields held them.
            values = numpy_helper.to_array(weight).tobytes()
            if len(values) < self.smallest:
                continue
            if values not in self._places:
                self.content += bytes(-len(self.content) % ALIGNED)
                self._places[values] = len(self.content)
                self.content += values
            place = {"location": self.location, "offset": self._places[values],
                     "length": len(values)}  # fmt: skip
            _refer(weight, place)


def _refer(weight: TensorProto, place: Mapping[str, str | int]) -> None:
    kept = TensorProto(name=weight.name, data_type=weight.data_type, dims=weight.dims)
    kept.data_location = TensorProto.EXTERNAL
    for key, value in place.items():
        kept.external_data.add(key=key, value=str(value))
    weight.CopyFrom(kept)
