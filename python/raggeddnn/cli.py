"""The command line: ``raggeddnn info``, ``bench``, ``verify`` and ``inspect``.

Exit status: 0 when all went well, 1 when a benchmark's result was wrong or an engine failed its
verification, 2 for a mistake in the arguments or an input that cannot be read, 141 when the reader
of the output has gone away.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import raggeddnn as rd

from ._document import printable
from ._inspect import describe
from ._usage import UsageError, exit_status, seconds, while_read


def gpu_engines_in_builds(folder: Path) -> list[str]:
    """What builds recorded of the GPU engine beside the engines in ``folder``: the architectures
    that it was compiled for, or why it was left out. First the package's own build, then those of
    the GPU engine's own wheels.
    """
    found = []
    for path in [folder / "raggeddnn_hip.json", *sorted(folder.glob("raggeddnn_hip_*.json"))]:
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            found.append(f"not recorded ({error})")
            continue
        targets = ", ".join(record["targets"])
        what = f"built for {targets}" if targets else f"left out of this build: {record['reason']}"
        found.append(f"{what} ({record['distribution']})")
    return found


def _info(_: argparse.Namespace) -> int:
    from .bench.report import text_table

    print(f"raggeddnn {rd.__version__}")
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, {platform.platform()}")
    print(f"package: {Path(rd.__file__).parent} (engines are beside its library)")
    for found in gpu_engines_in_builds(Path(rd._core.__file__).parent / "engines"):
        print(f"GPU engine: {found}")
    print(f"RAGGEDDNN_PLUGIN_PATH: {os.environ.get('RAGGEDDNN_PLUGIN_PATH') or 'not set'}")
    rows = [
        [
            engine.name,
            "-" if engine.id is None else str(engine.id),
            engine.version or "-",
            engine.api_version or "-",
            engine.device or "-",
            "yes" if engine.available else "no",
            Path(engine.plugin).name,
            engine.reason,
        ]
        for engine in rd.engines()
    ]
    headings = ("engine", "id", "version", "plugin API", "device", "available", "plugin", "reason")
    print()
    print(text_table(headings, rows))
    return 0


def _bench(args: argparse.Namespace) -> int:
    from .bench import command

    return command.run(args)


def _verify(args: argparse.Namespace) -> int:
    from .verify.command import VerifyOptions, list_cases, run_verify

    options = VerifyOptions(args.engine, args.plugin, args.case, args.timeout, args.verbose)
    try:
        if args.list:
            list_cases(options.globs, sys.stdout)
            return 0
        return run_verify(options, sys.stdout, sys.stderr)
    except ValueError as error:  # may quote a plugin
        raise UsageError(printable(error)) from error


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _inspect(args: argparse.Namespace) -> int:
    from ._core import describe_blob
    from .diagram import to_mermaid, to_svg

    try:
        data = Path(args.file).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {args.file}: {error.strerror}") from error
    try:
        text = describe_blob(data)
    except rd.Error as error:
        if _is_json(data):
            raise UsageError(
                f"{args.file}: this is JSON text; inspect reads serialized bytes "
                "(Graph.from_json reads JSON)"
            ) from error
        raise UsageError(f"{args.file}: {error}") from error
    document = json.loads(text)
    draw = {"mermaid": to_mermaid, "svg": to_svg}.get(args.form)
    if args.form == "json":
        print(json.dumps(document, indent=2))
    elif draw is None:
        print(describe(document))
    else:
        try:
            print(draw(document))
        except rd.InvalidValueError as error:
            raise UsageError(f"--{args.form} {args.file}: {error}") from error
    return 0


def build_parser() -> argparse.ArgumentParser:
    """The argument parser of the whole command."""
    from .bench.command import add_options
    from .verify.command import VerifyOptions

    parser = argparse.ArgumentParser(prog="raggeddnn", description="Attention on ragged batches.")
    parser.add_argument("--version", action="version", version=f"raggeddnn {rd.__version__}")
    commands = parser.add_subparsers(dest="command", required=True)

    about = "versions, and engines with the reason of those missing"
    info = commands.add_parser("info", help=about, description=about)
    info.set_defaults(run=_info)

    about = "time the ragged layout against padded ones and other libraries"
    bench = commands.add_parser("bench", help=about, description=about)
    add_options(bench)
    bench.set_defaults(run=_bench)

    about = "check engines case by case against the reference engine"
    verify = commands.add_parser("verify", help=about, description=about)
    verify.add_argument(
        "--engine", metavar="NAME", help="one engine instead of all but the reference"
    )
    verify.add_argument(
        "--plugin", metavar="PATH", type=Path, help="load this provider, or those of a folder"
    )
    verify.add_argument(
        "--case", metavar="GLOB", action="append", help="only cases of such names; repeatable"
    )
    verify.add_argument("--list", action="store_true", help="name the cases and stop")
    verify.add_argument(
        "--timeout",
        metavar="S",
        type=seconds,
        default=VerifyOptions.timeout,
        help="seconds for each case (default %(default)g)",
    )
    verify.add_argument(
        "--verbose", action="store_true", help="also what the engine's process printed"
    )
    verify.set_defaults(run=_verify)

    about = "print a serialized graph, plan or container"
    inspect = commands.add_parser("inspect", help=about, description=about)
    inspect.add_argument("file", metavar="FILE")
    forms = inspect.add_mutually_exclusive_group()
    for form, words in (
        ("json", "as JSON"),
        ("mermaid", "the graph as a Mermaid flowchart"),
        ("svg", "the graph as an SVG drawing"),
    ):
        forms.add_argument(f"--{form}", action="store_const", const=form, dest="form", help=words)
    inspect.set_defaults(run=_inspect)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line on ``argv`` (None: the process's arguments); returns the exit status."""
    return while_read(lambda: _main(argv))


def _main(argv: Sequence[str] | None) -> int:
    args = build_parser().parse_args(argv)
    args.words = list(sys.argv[1:] if argv is None else argv)
    return exit_status(f"raggeddnn {args.command}", lambda: int(args.run(args)))
