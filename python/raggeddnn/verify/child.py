"""The process in which cases run: ``python -m raggeddnn.verify.child REQUESTS RESULTS``.

The arguments are file descriptors. Requests and results are JSON, one a line, and standard output
is left to plugins, which print. First comes ``{"plugin": path or null}``, answered by the engines
or by ``{"error": ...}``; then ``{"engine": ..., "case": ...}`` as often as wanted, each answered by
a finding, and by whether the GPU was lost: then this process can verify no more there. Each request
has a ``token``, which its answer repeats: what a plugin writes to the pipe is no answer. The end of
the requests ends the process.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import signal
import sys
from typing import Any

import raggeddnn as rd

from .. import _core
from .._arrays import GPU_DEVICES
from .judge import judge
from .suite import all_cases


def _engines(plugin: str | None) -> dict[str, Any]:
    try:
        if plugin is not None:
            rd.add_plugin_path(plugin)
    except rd.Error as error:
        return {"error": str(error)}
    fields = ("name", "plugin", "version", "device", "available", "reason", "path")
    engines = [{name: getattr(e, name) for name in fields} for e in rd.engines()]
    for engine in engines:
        if engine["available"] and engine["device"] in GPU_DEVICES:
            engine["reason"] = _why_no_memory(engine["device"])
            engine["available"] = not engine["reason"]
    return {"engines": engines}


def _why_no_memory(device: str) -> str:
    """Empty where there is memory of a GPU of this kind."""
    try:
        found = _core.gpu_device()
    except rd.NotSupportedError as error:
        return f"works on {device} memory: {error}"
    return "" if found == device else f"works on {device} memory, and the GPU here is {found}'s"


def _is_lost(device: str) -> bool:
    """After a fault on a GPU every later call of the process fails."""
    if device not in GPU_DEVICES:
        return False
    try:
        _core.synchronize_gpu()
    except rd.Error:
        return True
    return False


def serve(requests: int, results: int) -> None:
    """Answer requests until they end."""
    for descriptor in (requests, results):  # no child of a plugin's shall hold them
        os.set_inheritable(descriptor, False)
    environment = _core.FpEnvironment()
    with os.fdopen(requests) as reader, os.fdopen(results, "w") as writer:

        def answer(request: dict[str, Any], reply: dict[str, Any]) -> None:
            print(json.dumps({"token": request["token"], **reply}), file=writer, flush=True)

        hello = json.loads(reader.readline())
        answer(hello, _engines(hello["plugin"]))
        environment.restore()  # whatever loading a plugin did to it
        cases = {case.name: case for case in all_cases()}
        devices = {e.name: e.device if e.device in GPU_DEVICES else "cpu" for e in rd.engines()}
        for line in reader:
            request = json.loads(line)
            device = devices[request["engine"]]
            finding = judge(cases[request["case"]].subject(), request["engine"], device)
            found = {"kind": finding.kind, "detail": finding.detail}
            answer(request, {**found, "is_lost": _is_lost(device)})


def main() -> None:
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # An interrupt from the terminal reaches both processes; the parent sees to this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve(int(sys.argv[1]), int(sys.argv[2]))


if __name__ == "__main__":
    main()
