import time

import pytest
import torch

from vitbook.measure import Matmul, Work, measure_throughput
from vitbook.measure.utilisation import SIDES


class Sleeper(Matmul):
    """A matrix product that takes as long as it is told."""

    def __init__(self):
        self.side = 100

    def __call__(self):
        time.sleep(0.004)


def test_work_whose_speed_is_known():
    half = Work(lambda: time.sleep(0.004), images=8, macs=500_000)
    slower = Work(lambda: time.sleep(0.008), images=8, macs=2_000_000)
    (first, second), peak = measure_throughput([half, slower], Sleeper(), rounds=10)
    # Sleep may last longer, never shorter; a busy machine stretches all three.
    assert first.images_per_second <= 8 / 0.004 and peak <= 1_000_000 / 0.004
    assert first.utilisation.median == pytest.approx(0.5, rel=0.3)
    assert second.utilisation.median == pytest.approx(1.0, rel=0.3)
    assert first.speed.low == first.speed.high == 1.0
    assert second.speed.median == pytest.approx(0.5, rel=0.3)


def test_speed_is_told_for_each_image():
    pause = 0.002
    one = Work(lambda: time.sleep(pause), images=1, macs=1)
    four = Work(lambda: time.sleep(pause), images=4, macs=1)
    (_, second), _ = measure_throughput([one, four], Sleeper(), rounds=10)
    assert second.speed.median == pytest.approx(4, rel=0.3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_matrix_product_is_a_real_one(dtype, monkeypatch):
    monkeypatch.setitem(SIDES, "cpu", (64, 128))
    matmul = Matmul("cpu", dtype)
    assert matmul.side in (64, 128) and matmul.macs == matmul.side**3
    product = matmul()
    assert product.dtype == dtype and (product == matmul.side).all()


def test_bad_input():
    with pytest.raises(ValueError, match="device meta: expected cpu or cuda"):
        Matmul("meta")
    with pytest.raises(ValueError, match="0 pieces of work"):
        measure_throughput([], Sleeper())
    with pytest.raises(ValueError, match="1 rounds"):
        measure_throughput([Work(lambda: None, 1, 1)], Sleeper(), rounds=1)
