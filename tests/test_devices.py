import os

import pytest
import torch

from vitbook.devices import choose_device, set_threads


def test_a_device():
    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device().type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("name", ["foo", "", "cpu:1", "meta", "cuda:99", "cpu cuda"])
def test_a_device_that_is_not_there(name):
    with pytest.raises(ValueError, match="expected cpu or cuda|torch sees") as error:
        choose_device(name)
    assert "\n" not in str(error.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_gpu_that_is_not_there():
    with pytest.raises(ValueError, match="device cuda: torch sees 0 of this kind here; take cpu"):
        choose_device("cuda")


def test_threads():
    before = torch.get_num_threads()
    set_threads(None)
    assert torch.get_num_threads() == before
    set_threads(1)
    assert torch.get_num_threads() == 1
    torch.set_num_threads(before)


@pytest.mark.parametrize("threads", [0, -1, 1_000_000])
def test_threads_that_cannot_be(threads):
    most = 4 * os.cpu_count()
    with pytest.raises(ValueError, match=f"threads {threads}: expected 1 to {most}"):
        set_threads(threads)
