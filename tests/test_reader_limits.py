"""What damaged input may cost: memory and time, measured in a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Run with the name of an input; prints the growth of the peak of resident memory in bytes, the
# seconds of the processor, and how the refusal reads.
PROBE = """
import json, resource, sys, time
import fb_builder
import raggeddnn as rd

INPUTS = {
    "aliased": fb_builder.build_aliased_graph,
    "deep": lambda: "[" * 10_000_000,
    "empty lists": lambda: "[" + "[]," * 500_000,
    "empty objects": lambda: '{"tensors":[' + "{}," * 500_000,
    "tensors": lambda: '{"tensors":[' + ",".join(f'{{"uid":{i}}}' for i in range(40_000)) + "]}",
    "numbers": lambda: '{"tensors":[' + "1," * 800_000 + '1],"nodes":[]}',
    "keys": lambda: "{" + ",".join(f'"{i}":0' for i in range(200_000)) + "}",
    "one text": lambda: '{"name":"' + "x" * 1_500_000,
}

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))

data = INPUTS[sys.argv[1]]()
read = rd.Graph.deserialize if isinstance(data, bytes) else rd.Graph.from_json
try:
    read(data[:100])
except rd.InvalidValueError:
    pass
with open("/proc/self/clear_refs", "w") as reset:
    reset.write("5")  # the peak becomes what is in use now
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
before, begin = peak(), time.process_time()
try:
    read(data)
    text = "accepted"
except rd.InvalidValueError as refusal:
    text = str(refusal)
seconds = time.process_time() - begin
print(json.dumps([len(data), peak() - before, seconds, text]))
"""


@pytest.mark.parametrize(
    ("name", "words", "megabytes", "longest"),
    [
        ("aliased", "same place", 20, 0.1),
        ("deep", "nested deeper", 20, 0.5),
        ("empty lists", "no JSON", 60, 2.0),
        ("empty objects", "no JSON", 60, 2.0),
        ("tensors", "nodes is missing", 60, 2.0),
        ("numbers", "tensors[0] is 1", 60, 2.0),
        ("keys", "key number 129", 20, 0.5),
        ("one text", "no JSON", 20, 0.5),
    ],
)
def test_a_refusal_is_cheap(
    tmp_path: Path, name: str, words: str, megabytes: int, longest: float
) -> None:
    probe = tmp_path / "probe.py"
    probe.write_text(PROBE)
    paths = [str(Path(__file__).parent), *sys.path]
    done = subprocess.run(
        [sys.executable, str(probe), name],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert done.returncode == 0, done.stderr
    size, growth, seconds, text = json.loads(done.stdout)
    assert words in text
    assert growth < megabytes << 20, f"{size} bytes took {growth} bytes of memory"
    assert seconds < longest
