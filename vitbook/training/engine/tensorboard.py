"""TensorBoard, for who wants it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from vitbook.training.engine.processes import processes


@contextmanager
def tensorboard_writer(
    folder: str | Path | None, name: str
) -> Iterator[Callable[[dict], None] | None]:
    """Yield a function that draws a row of the curve; None without a folder.

    Raises:
        ModuleNotFoundError: TensorBoard is not installed.
    """
    if folder is None or not processes().is_first:
        yield None
        return
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "tensorboard is not installed: pip install tensorboard, or leave --tensorboard out"
        ) from error

    def draw(row: dict) -> None:
        for key in row.keys() - {"epoch"}:
            writer.add_scalar(key, row[key], row["epoch"])
        writer.flush()

    with SummaryWriter(Path(folder) / name) as writer:
        yield draw
