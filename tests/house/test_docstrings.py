"""The examples in docstrings run, and print what they say."""

import doctest
import inspect
import pkgutil
from importlib import import_module

import pytest

import vitbook

# What draws is seen, not printed; a command is tried by its own tests, a study by its chapter, and
# the trainer is no Python.
WITHOUT = tuple(
    f"vitbook.{name}" for name in ("__main__", "cli", "figures", "plots", "studies", "trainer")
)


def examples() -> dict[str, doctest.DocTest]:
    """All that have a prompt, of functions, classes and their methods, by path."""
    finder, found = doctest.DocTestFinder(exclude_empty=True), {}
    for file in pkgutil.walk_packages(vitbook.__path__, "vitbook."):
        if file.name.startswith(WITHOUT):
            continue
        for name, value in vars(import_module(file.name)).items():
            if getattr(value, "__module__", None) != file.name or not callable(value):
                continue
            # Without a module, since the check of shapes wraps functions in those of another.
            tests = finder.find(inspect.unwrap(value), f"{file.name}.{name}", False, globs={})
            found |= {test.name: test for test in tests if test.examples}
    return found


EXAMPLES = examples()


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_prints_what_it_says(name):
    report = []
    runner = doctest.DocTestRunner(verbose=False)
    result = runner.run(EXAMPLES[name], out=report.append, clear_globs=True)
    assert result.failed == 0, "".join(report)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_imports_what_it_uses_as_a_reader_would(name):
    first = EXAMPLES[name].examples[0].source
    assert first.startswith(("import ", "from ")), first


@pytest.mark.parametrize(
    "package",
    [
        f"vitbook.{module.name}"
        for module in pkgutil.iter_modules(vitbook.__path__)
        if module.ispkg and not f"vitbook.{module.name}".startswith(WITHOUT)
    ],
)
def test_a_package_has_an_example(package):
    assert any(name.startswith(f"{package}.") for name in EXAMPLES)
