"""How long runs take on a device, by what the ledger has measured on it."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from statistics import median

from vitbook.published_counts import macs
from vitbook.runs import PlannedRun, Result


class Rates:
    """Images a second on a device, evaluation included, as the ledger has them.

    An image whose step takes two gradients, as with a ``sharpness_radius``, counts twice.

    A model without a row at this image size, all of it or the same parts learning, has the
    arithmetic a second of those that have one; a device without a row, that of the same processor
    with other threads.
    """

    def __init__(self, rows: Mapping[PlannedRun, Result], device: str):
        seen = Counter(row.device for row in rows.values())
        kin = [name for name in seen if name.split(", ")[0] == device.split(", ")[0]]
        self.device = device if device in seen else max(kin, key=seen.get, default=device)
        measured, arithmetic = defaultdict(list), {}
        for run, row in rows.items():
            if row.device == self.device:
                work = _work(run)
                measured[work].append(run.images * _gradients(run) / row.wall_time_s)
                if "digits" not in row.dataset:  # these are a matter of calls, not of arithmetic
                    arithmetic[work] = macs(*work[:2])
        self._rates = {work: median(rates) for work, rates in measured.items()}
        of_all = [each * self._rates[work] for work, each in arithmetic.items()]
        self._macs = median(of_all) if of_all else None

    def hours(self, runs: list[PlannedRun], left: dict[PlannedRun, float]) -> str:
        """Of runs with so many images left."""
        seconds = 0.0
        for run in runs:
            work = _work(run)
            if work not in self._rates and self._macs is None:
                return "not measured"
            rate = self._rates.get(work) or self._macs / macs(*work[:2])
            seconds += left[run] * _gradients(run) / rate
        return f"{seconds / 3600:.1f}"


def _work(run: PlannedRun) -> tuple[str, int | None, str, int]:
    """What a step costs depends on: model, image size, the parts that learn."""
    recipe = run.recipe
    return run.model, recipe.image_size or None, recipe.train_from, recipe.adapter_rank


def _gradients(run: PlannedRun) -> int:
    """Of a step."""
    return 2 if run.recipe.sharpness_radius else 1
