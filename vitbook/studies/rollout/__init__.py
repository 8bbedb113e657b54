"""What the chapter on rollout draws and measures: attention sinks, registers, maps of a class."""

from vitbook.studies.rollout.drawings import alike, class_maps, one_layer, with_registers
from vitbook.studies.rollout.heads import SINK, sinks
from vitbook.studies.rollout.numbers import of_sinks, of_use, without_heads

__all__ = [
    "SINK", "alike", "class_maps", "of_sinks", "of_use", "one_layer", "sinks", "with_registers",
    "without_heads",
]  # fmt: skip
