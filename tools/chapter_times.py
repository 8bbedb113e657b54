"""A plugin of pytest that says how long each chapter took: `-p chapter_times`."""

from collections import Counter

LONG = ("vit", "self_supervision")


def pytest_collection_modifyitems(items):
    """The longest first: else one core waits for the last of them."""
    items.sort(key=lambda item: item.path.stem not in LONG)


def pytest_terminal_summary(terminalreporter):
    seconds = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            chapter, _, cell = getattr(report, "nodeid", "").partition("::")
            if cell:
                seconds[chapter] += report.duration
    terminalreporter.section("seconds of each chapter")
    for chapter, duration in sorted(seconds.items()):
        terminalreporter.write_line(f"{chapter:30} {duration:6.1f}")
