"""Cases run one after another in a child process, which is replaced when a case takes it, or the
device that it uses, down.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

START_SECONDS = 120.0  # to import, and to load plugins
_POLL_SECONDS = 0.1
_END_SECONDS = 5.0

KINDS = ("passed", "refused", "wrong", "crashed", "timed out")
FAULTS = ("wrong", "crashed", "timed out")


@dataclass(frozen=True)
class Outcome:
    """How a case went: one of ``KINDS``, why, and what the process printed meanwhile."""

    case: str
    kind: str
    detail: str = ""
    log: str = ""


class _GoneError(Exception):
    """The child ended before it answered, or answers no more; ``kind`` as in an Outcome."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


class _Child:
    """One process. Everything that it prints goes to a file, its answers through a pipe."""

    def __init__(self) -> None:
        requests, self._requests = os.pipe()
        self._results, results = os.pipe()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self._log_read = 0
        self._unread = b""
        command = [sys.executable, "-m", "raggeddnn.verify.child", str(requests), str(results)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            pass_fds=(requests, results),
        )
        os.close(requests)
        os.close(results)

    def ask(self, request: dict[str, Any], timeout: float) -> dict[str, Any]:
        """The answer to a request; raises _GoneError when none comes within ``timeout`` seconds, or
        something else does. An answer bears the token of its request, which no plugin knows.
        """
        token = secrets.token_hex(8)
        with contextlib.suppress(BrokenPipeError):  # it has ended, which reading tells
            os.write(self._requests, json.dumps({"token": token, **request}).encode() + b"\n")
        answer = self._answer(self._line(timeout))
        if answer.get("token") != token:
            raise _GoneError("crashed", "something else wrote to the pipe for its results")
        return answer

    def _line(self, timeout: float) -> bytes:
        deadline = time.monotonic() + timeout
        while b"\n" not in self._unread:
            left = deadline - time.monotonic()
            if left <= 0:
                raise _GoneError("timed out", f"no result after {timeout:g} s")
            # Something that it started may hold the pipe open, so its end is looked for as well.
            has_ended = self._process.poll() is not None
            ready, _, _ = select.select([self._results], [], [], min(left, _POLL_SECONDS))
            data = os.read(self._results, 1 << 16) if ready else b""
            if not data and (ready or has_ended):
                raise _GoneError("crashed", self._how_it_ended())
            self._unread += data
        line, self._unread = self._unread.split(b"\n", 1)
        return line

    @staticmethod
    def _answer(line: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(line.decode())
        except ValueError:  # that of decoding included
            return {}
        return answer if isinstance(answer, dict) else {}

    def _how_it_ended(self) -> str:
        try:
            status = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            return "the process goes on, but closed the pipe for its results"
        if status >= 0:
            return f"exit status {status}"
        names = {number.value: number.name for number in signal.Signals}
        return f"{names.get(-status, -status)} ({signal.strsignal(-status)})"

    def printed(self) -> str:
        """What it printed since the last time, read without moving its place in the file."""
        size = os.fstat(self._log.fileno()).st_size
        data = os.pread(self._log.fileno(), size - self._log_read, self._log_read)
        self._log_read = size
        return data.decode(errors="replace")

    def end(self) -> None:
        """Leave no process behind."""
        self._process.kill()
        self._process.wait()
        os.close(self._requests)
        os.close(self._results)
        self._log.close()


class Session:
    """Runs cases, in a child process while it is entered (``with Session(path) as session``).

    ``engines``: what the child found, one dictionary each with name, plugin, version, device,
    available and reason. Entering raises ValueError with the reason when ``plugin``, a file or a
    folder, cannot be loaded.
    """

    def __init__(self, plugin: Path | None = None) -> None:
        self._plugin = plugin
        self._child: _Child | None = None
        self.engines: list[dict[str, Any]] = []

    def __enter__(self) -> Session:
        try:
            self._start()
        except _GoneError as gone:
            self._end()
            what = "the engines" if self._plugin is None else f"{self._plugin}"
            raise ValueError(f"loading {what}: the process {gone.kind}: {gone}") from gone
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def run(self, engine: str, case: str, timeout: float) -> Outcome:
        """Put a case to an engine (its full name), in a new child where the last one is gone."""
        try:
            if self._child is None:
                self._start()
            assert self._child is not None
            answer = self._child.ask({"engine": engine, "case": case}, timeout)
            outcome = Outcome(case, answer["kind"], answer["detail"], self._child.printed())
            if answer["is_lost"]:
                self._end()
            return outcome
        except _GoneError as gone:
            log = self._child.printed() if self._child else ""
            self._end()
            return Outcome(case, gone.kind, str(gone), log)

    def _start(self) -> None:
        self._child = _Child()
        plugin = None if self._plugin is None else str(self._plugin)
        hello = self._child.ask({"plugin": plugin}, START_SECONDS)
        self._child.printed()
        if "error" in hello:
            raise ValueError(hello["error"])
        self.engines = hello["engines"]

    def _end(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None
