import pytest

from vitbook.measure import Run


def test_a_run_by_hand():
    run = Run(images=3600, passes=2, macs=10, images_per_second=4)
    assert run.total_macs == 72_000 and run.hours == 0.5
    assert Run(images=10, passes=1, macs=10).hours is None


@pytest.mark.parametrize("change", [{"images": 0}, {"passes": -1}, {"images_per_second": 0}])
def test_a_run_that_cannot_be(change):
    with pytest.raises(ValueError, match="expected numbers above 0"):
        Run(**{"images": 1, "passes": 1, "macs": 1} | change)
