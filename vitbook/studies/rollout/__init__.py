"""What the chapter on rollout draws and measures: attention sinks, registers, maps of a class."""

from vitbook.studies.rollout.drawings import alike, class_maps, one_layer, with_registers
from vitbook.studies.rollout.heads import SINK, sinks
from vitbook.studies.rollout.numbers import of_keys, of_sinks, of_use, times_mean, without_heads

__all__ = [
    "SINK", "alike", "class_maps", "of_keys", "of_sinks", "of_use", "one_layer", "sinks",
    "times_mean", "with_registers", "without_heads",
]  # fmt: skip
