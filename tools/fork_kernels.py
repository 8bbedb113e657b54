"""A plugin of pytest that forks the kernels of chapters from one process: `-p fork_kernels`.

That process has imported torch and its like, which takes a quarter of the time of a chapter. What
jupyter starts as a kernel only asks it for one, and lives, passes signals on and ends with it.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

# Without what reads its settings when it is imported: matplotlib asks for the kernel's backend.
AHEAD = ("torch", "torch._dynamo", "torchvision", "timm", "scipy.stats", "sklearn.decomposition",
         "skimage.data", "ipykernel.kernelapp", "ipywidgets")  # fmt: skip
PLACE = "VITBOOK_KERNELS"


def pytest_configure(config):
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        import ipykernel.kernelspec

        folder = tempfile.TemporaryDirectory()
        config.add_cleanup(folder.cleanup)
        os.environ[PLACE] = str(Path(folder.name) / "kernels")
        server = subprocess.Popen([sys.executable, __file__])
        config.add_cleanup(server.wait)  # the last that is added is the first that is done
        config.add_cleanup(server.terminate)
        known = ipykernel.kernelspec.get_kernel_dict()
        # Without `site`, which takes longer than all that the one who asks does.
        known["argv"] = [sys.executable, "-S", __file__, "{connection_file}"]
        ipykernel.kernelspec.get_kernel_dict = lambda *_: known


def serve(place: str) -> None:
    """Fork a kernel for whoever connects."""
    for name in AHEAD:
        __import__(name)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{place}.new")
        server.listen()
        os.rename(f"{place}.new", place)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for who looks after a kernel
        while True:
            connection, _ = server.accept()
            if not os.fork():
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                server.close()
                look_after(connection)
                os._exit(0)
            connection.close()


def look_after(connection: socket.socket) -> None:
    """Begin the kernel that is asked for; tell its number, then how it ended."""
    lines = connection.makefile("rw")
    asked = json.loads(lines.readline())
    kernel = os.fork()
    if not kernel:
        connection.close()
        begin(**asked)
    print(kernel, file=lines, flush=True)
    while not (ended := os.waitpid(kernel, os.WNOHANG))[0]:
        if select.select([connection], [], [], 0.1)[0]:  # who asked is gone
            os.kill(kernel, signal.SIGKILL)
    with suppress(OSError):
        print(os.waitstatus_to_exitcode(ended[1]), file=lines, flush=True)


def begin(connection_file: str, folder: str, environment: dict[str, str]) -> None:
    """Become a kernel, which takes no parent for its own: it has another than jupyter thinks."""
    from ipykernel import kernelapp

    os.setsid()
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())  # as nbval does
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    os.environ.pop("JPY_PARENT_PID", None)
    sys.argv = ["ipykernel_launcher", "-f", connection_file]
    sys.path[0] = ""
    try:
        kernelapp.launch_new_instance()
    finally:
        os._exit(0)


def ask(place: str, connection_file: str) -> int:
    """Ask for a kernel, and end as it does."""
    while not os.path.exists(place):
        time.sleep(0.05)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(place)
        lines = connection.makefile("rw")
        asked = {"connection_file": connection_file, "folder": os.getcwd(),
                 "environment": dict(os.environ)}  # fmt: skip
        print(json.dumps(asked), file=lines, flush=True)
        kernel = int(lines.readline())
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: os.kill(kernel, number))
        return int(lines.readline() or 1)


if __name__ == "__main__":
    place = os.environ[PLACE]
    sys.exit(ask(place, sys.argv[1]) if sys.argv[1:] else serve(place))
