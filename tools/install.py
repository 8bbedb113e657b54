"""Make the environment: a virtual one, the pinned packages, and vitbook itself in place.

Run by the system's python3, whatever its age: standard library only, and old syntax.
"""

import re
import subprocess
import sys
import time
from pathlib import Path

LOG = "install.log"


def stop(sentence):
    sys.exit("[environment] " + sentence)


def run(log, *command):
    """Yield the lines of a command, each also written to the log; stop when it fails."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True
    )
    tail = []
    for line in process.stdout:
        log.write(line)
        tail = tail[-14:] + [line]  # noqa: RUF005
        yield line
    if process.wait():
        sys.stderr.write("\n" + "".join(tail))
        stop("the installation failed: see above and %s, then run the same make again" % log.name)


def install(log, python, *arguments):
    """pip, with one growing line instead of its thousand."""
    live, packages, megabytes = sys.stdout.isatty(), 0, 0.0
    shown = time.time()
    for line in run(log, python, "-m", "pip", "install", "--progress-bar", "off", *arguments):
        packages += line.startswith("Collecting ")
        size = re.match(r"\s+Downloading \S+ \((?:([\d.]+) (kB|MB|GB))\)", line)
        if size:
            megabytes += float(size.group(1)) * {"kB": 1e-3, "MB": 1, "GB": 1e3}[size.group(2)]
        step = re.match(r"\s*(Collecting|Downloading|Installing) ([^\s=]+)", line)
        if step and (live or time.time() - shown > 10):
            shown = time.time()
            doing = "%s %s" % (step.group(1).lower(), step.group(2))
            note = "  %d packages, %d MB downloaded: %s" % (packages, megabytes, doing)
            print("\r\033[K" + note[:79] if live else note, end="" if live else "\n", flush=True)
    if live:
        print("\r\033[K", end="")


def fetch_weights(log, python):
    """The real ViT that the chapters look into; without it they show what was recorded."""
    command = [python, "-m", "vitbook", "weights", "fetch"]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True
    )
    log.write(done.stdout)
    last = (done.stdout.strip().splitlines() or ["?"])[-1]
    print("[environment] " + ("Pretrained weights: " if done.returncode else "") + last, flush=True)


def main(folder):
    start = time.time()
    if sys.version_info < (3, 11):
        stop(
            "vitbook needs Python 3.11 or newer and this python3 is %d.%d: install a newer one, "
            "or name it, as in `make PYTHON=python3.12 book`" % sys.version_info[:2]
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        stop("this python3 cannot make environments: on Debian, `apt-get install python3-venv`")

    environment = Path(folder)
    stamp, python = environment / ".installed", str(environment / "bin" / "python")
    if stamp.exists():
        stamp.unlink()
    environment.mkdir(exist_ok=True)
    print("[environment] Installing the pinned packages into %s (about 6 GB)" % folder, flush=True)
    with open(str(environment / LOG), "w") as log:
        for _ in run(log, sys.executable, "-m", "venv", folder):
            pass
        install(log, python, "-r", "requirements.lock")
        install(log, python, "--no-deps", "--no-build-isolation", "-e", ".")
        fetch_weights(log, python)
    stamp.touch()
    print("[environment] done in %d s" % (time.time() - start))


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except KeyboardInterrupt:
        stop("interrupted: run the same make again to go on")
