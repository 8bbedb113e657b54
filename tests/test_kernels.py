import os
import subprocess
import sys

import pytest

from vitbook import runs
from vitbook.cli import kernels

ASK = """
import ctypes, os, torch
from vitbook import runs
print(ctypes.CDLL(None).mkl_serv_intel_cpu_true(), runs.device_name("cpu"))
print((torch.ones(64, 64) @ torch.ones(64, 64)).eq(64).all().item())
"""


def cpu(monkeypatch, tmp_path, words, compiler="/usr/bin/cc"):
    about = tmp_path / "cpuinfo"
    about.write_text(words)
    monkeypatch.setattr(kernels, "Path", lambda path: about if path == "/proc/cpuinfo" else path)
    monkeypatch.setattr(kernels.shutil, "which", lambda name: compiler)


@pytest.mark.parametrize(
    ("words", "compiler", "helps"),
    [
        ("vendor_id : AuthenticAMD\nflags : avx2 avx512f", "/usr/bin/cc", True),
        ("vendor_id : AuthenticAMD\nflags : avx2", "/usr/bin/cc", False),
        ("vendor_id : GenuineIntel\nflags : avx2 avx512f", "/usr/bin/cc", False),
        ("vendor_id : AuthenticAMD\nflags : avx2 avx512f", None, False),
    ],
)
def test_where_it_helps(words, compiler, helps, monkeypatch, tmp_path):
    monkeypatch.setattr(kernels.sys, "platform", "linux")
    monkeypatch.setattr(kernels.platform, "machine", lambda: "x86_64")
    cpu(monkeypatch, tmp_path, words, compiler)
    assert kernels.helps() is helps


def test_a_compiler_that_fails_is_no_error(monkeypatch, tmp_path):
    monkeypatch.setattr(kernels, "helps", lambda: True)
    monkeypatch.setattr(kernels, "ANSWER", "no C")
    assert kernels.build(tmp_path) is None
    assert kernels.environment(tmp_path) == {}


def test_a_process_says_that_it_uses_them(tmp_path, monkeypatch):
    if not kernels.helps():
        pytest.skip("this processor has nothing to gain, or there is no compiler")
    assert kernels.build(tmp_path) == tmp_path / kernels.LIBRARY
    monkeypatch.setenv("LD_PRELOAD", "")
    given = kernels.environment(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", ASK], env=os.environ | given, capture_output=True, text=True
    )
    answer, same = done.stdout.splitlines()
    assert answer.startswith("1 ") and answer.endswith(f", {runs.WIDE_VECTORS}"), done.stderr
    assert same == "True"
    assert not runs.device_name("cpu").endswith(runs.WIDE_VECTORS)
