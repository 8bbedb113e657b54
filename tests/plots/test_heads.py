import pytest
import torch

from vitbook import plots


def test_a_map_for_each_head_in_a_line_for_each_layer():
    maps = [torch.rand(3, 4, 4), torch.rand(2, 4, 4)]
    image = torch.zeros(3, 8, 8, dtype=torch.uint8)
    figure = plots.head_sheet(maps, "All heads", image)
    assert len(figure.axes) == 1 + 3 + 2
    assert [axis.get_ylabel() for axis in figure.axes if axis.get_ylabel()] == ["1", "2"]
    assert figure._suptitle.get_text() == "All heads"
    assert len(plots.head_sheet(maps, "All heads").axes) == 5


def test_no_layers():
    with pytest.raises(ValueError, match="0 layers came"):
        plots.head_sheet([], "nothing")
