"""How long runs take on a device, by what the ledger has measured on it."""

import statistics
from collections import Counter

from vitbook.audit import macs
from vitbook.results import Result
from vitbook.training import PlannedRun


class Rates:
    """Images a second on a device, evaluation included, as the ledger has them.

    A model without a row has the arithmetic a second of those that have one; a device without a
    row, that of the same processor with other threads or kernels.
    """

    def __init__(self, rows: dict[str, Result], device: str):
        seen = Counter(row.device for row in rows.values())
        if device not in seen:
            kin = [name for name in seen if name.split(", ")[0] == device.split(", ")[0]]
            device = max(kin, key=seen.get, default=device)
        self.device, measured, large = device, {}, set()
        for row in rows.values():
            if row.device == device and (run := PlannedRun.of(row)) is not None:
                measured.setdefault(row.model, []).append(run.images / row.wall_time_s)
                if "digits" not in row.dataset:  # these are a matter of calls, not of arithmetic
                    large.add(row.model)
        self.of_model = {model: statistics.median(rates) for model, rates in measured.items()}
        rates = [macs(model, None) * self.of_model[model] for model in large]
        self.macs = statistics.median(rates) if rates else None

    def hours(self, runs: list[PlannedRun], left: dict[PlannedRun, float]) -> str:
        seconds = 0.0
        for run in runs:
            if run.model not in self.of_model and self.macs is None:
                return "not measured"
            rate = self.of_model.get(run.model) or self.macs / macs(run.model, None)
            seconds += left[run] / rate
        return f"{seconds / 3600:.1f}"
