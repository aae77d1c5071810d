"""A terminal of 80 columns in which commands are typed: their process, and the screen that a person sees."""

import contextlib
import fcntl
import os
import pty
import re
import select
import shlex
import subprocess
import sys
import termios
import threading
import time
from dataclasses import dataclass
from unittest.mock import patch

from bakeoff.cli import main

ROWS, COLUMNS = 40, 80
_END = b"\0"
_TOKEN = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")


@dataclass(frozen=True)
class Seen:
    """What one command wrote to the terminal.

    Attributes:
        screen: lines that are left at the end.
        raw: everything written, including what was overwritten later.
    """

    code: int
    screen: str
    raw: str


def type_line(line, *, command, folder, env, keys=(), limit_s=120.0):
    """Type a line that begins with `bakeoff`; `keys` are pairs of a text to wait for and the keys to type then."""
    parent, child = pty.openpty()
    termios.tcsetwinsize(child, (ROWS, COLUMNS))
    process = subprocess.Popen(
        [*command, *shlex.split(line)[1:]],
        cwd=folder, env=env, stdin=child, stdout=child, stderr=child, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(child)
    try:
        raw = _read(parent, process, list(keys), time.monotonic() + limit_s)
        code = process.wait(timeout=10)
    finally:
        process.kill()
        process.wait()
        os.close(parent)
    return Seen(code, screen_of(raw), raw)


def type_inside(line, *, folder, env):
    """Like `type_line`, inside this process, which saves a second of imports. For commands that start no server."""
    parent, child = pty.openpty()
    termios.tcsetwinsize(child, (ROWS, COLUMNS))
    written = bytearray()
    reader = threading.Thread(target=_read_all, args=(parent, written))
    reader.start()
    kept = [os.dup(number) for number in range(3)]
    try:
        for number in range(3):
            os.dup2(child, number)
        os.close(child)
        with contextlib.chdir(folder), patch.dict(os.environ, env, clear=True), _standard_streams():
            code = main.run(shlex.split(line)[1:])
    finally:
        os.write(1, _END)  # a helper process of the command may hold the terminal open
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
            os.close(descriptor)
        reader.join()
        os.close(parent)
    raw = written.removesuffix(_END).decode()
    return Seen(int(code), screen_of(raw), raw)


@contextlib.contextmanager
def _standard_streams():
    """Python's streams on the first three descriptors."""
    with (
        open(0, closefd=False) as stdin,
        open(1, "w", buffering=1, closefd=False) as stdout,
        open(2, "w", buffering=1, closefd=False) as stderr,
        patch.multiple(sys, stdin=stdin, stdout=stdout, stderr=stderr, __stdout__=stdout),
    ):
        yield


def _read_all(parent, written):
    while not written.endswith(_END):
        written += os.read(parent, 65536)


def _read(parent, process, keys, deadline):
    """Everything that the command writes until its end."""
    written = b""
    while time.monotonic() < deadline:
        ready, _, _ = select.select([parent], [], [], 0.2)
        if not ready:
            if process.poll() is not None:
                return written.decode()
            continue
        try:
            piece = os.read(parent, 65536)
        except OSError:  # the other end is closed
            return written.decode()
        written += piece
        if keys and keys[0][0] in written.decode(errors="replace"):
            os.write(parent, keys.pop(0)[1])
    raise AssertionError(f"not within its limit: {written.decode(errors='replace')[-2000:]}")


def screen_of(raw):
    """The lines that are left when all has been written; colours are dropped."""
    lines, row, column = [""], 0, 0
    for numbers, letter, end, text in _TOKEN.findall(raw):
        if letter == "A":
            row = max(0, row - int(numbers or 1))
        elif letter == "K":
            lines[row] = "" if numbers == "2" else lines[row][:column]
        elif end == "\r":
            column = 0
        elif end == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif text:
            lines[row] = lines[row][:column].ljust(column) + text + lines[row][column + len(text) :]
            column += len(text)
    return "\n".join(line.rstrip() for line in lines).strip("\n")
