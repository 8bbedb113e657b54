"""Parameters, operations, speed, memory, costs: how each is counted is said where it is counted.

A measure takes any module and images of a size. What is asked of a model's answers belongs in
`analysis`, rows of it in `runs`.
"""

from vitbook.measure.costs import Costs, Run
from vitbook.measure.counting import count_macs, count_parameters, count_step_macs
from vitbook.measure.memory import memory_held, memory_so_far, peak_memory
from vitbook.measure.timing import Ratio, compare_speed, interleaved_seconds, ratio_of
from vitbook.measure.utilisation import Matmul, Throughput, Work, measure_throughput

__all__ = [
    "Costs",
    "Matmul",
    "Ratio",
    "Run",
    "Throughput",
    "Work",
    "compare_speed",
    "count_macs",
    "count_parameters",
    "count_step_macs",
    "interleaved_seconds",
    "measure_throughput",
    "memory_held",
    "memory_so_far",
    "peak_memory",
    "ratio_of",
]
