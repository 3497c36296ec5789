"""The command `softnpu`.

    softnpu run [settings] -- CMD...       runs CMD so that any client of CANN in it finds softnpu
    softnpu env [settings] [--path]        prints the exports that do so; --path: a file for `source`
    softnpu info [settings] [--json]       cards, memory, chip, versions, settings
    softnpu trace [settings] -- CMD...     runs CMD and says which operators it launched
    softnpu conformance [--library PATH]   the tests of the C ABI on a libascendcl.so, report
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

from softnpu import conformance, info, place, recording, settings


def _add_settings(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("settings of softnpu; those that are not given come from the environment")
    group.add_argument("--cards", type=int, metavar="N", help="number of cards, 0 to 64")
    group.add_argument("--soc", metavar="NAME", help="the chip to be, for example Ascend910B1")
    group.add_argument("--memory", metavar="BYTES", help="memory of one card, for example 2G")
    group.add_argument("--strict", nargs="?", const="1", choices=["calls", "1"], metavar="calls",
                       help="refuse what a card may not survive (calls), and data types that the chip refuses")
    group.add_argument("--hostile", type=int, metavar="SEED", help="change by chance what a card leaves open")
    group.add_argument("--asynchronous", action="store_true", default=None, help="every task runs on its stream's thread")
    group.add_argument("--threads", type=int, metavar="N", help="threads of one kernel")


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """What stands before `--` and behind it."""
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1:]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="softnpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True, metavar="run|env|info|trace|conformance")
    for name, what in (("run", "runs a command"), ("trace", "runs a command and says which operators it launched")):
        command = commands.add_parser(name, help=what, usage=f"softnpu {name} [settings] -- CMD...")
        _add_settings(command)
        command.add_argument("--private", action="store_true", help="cards that no other process uses; their memory is not shared with it")
        if name == "trace":
            command.add_argument("--out", type=Path, metavar="FILE", help="keeps the recording, one line of JSON for each call")
            command.add_argument("--all", action="store_true", help="counts the other calls of the C ABI, too")
    env = commands.add_parser("env", help="prints exports")
    _add_settings(env)
    env.add_argument("--path", action="store_true", help='prints a file instead: source "$(softnpu env --path)"')
    about = commands.add_parser("info", help="cards, memory, versions, settings")
    _add_settings(about)
    about.add_argument("--json", action="store_true", help="prints JSON")
    conform = commands.add_parser("conformance", help="tests of the C ABI on a library")
    conform.add_argument("--library", type=Path, metavar="PATH", help="a libascendcl.so (default softnpu's)")
    conform.add_argument("--seconds", type=float, default=conformance.SECONDS,
                         help="how long a test may say nothing (default %(default).0f)")
    return parser


def _chosen(options: argparse.Namespace) -> dict[str, str]:
    strict = {None: None, "1": True}.get(options.strict, options.strict)
    return settings.variables(cards=options.cards, soc=options.soc, memory=options.memory, strict=strict, hostile=options.hostile,
                              asynchronous=options.asynchronous, threads=options.threads)


def main(arguments: list[str] | None = None) -> int:
    before, command = _split(sys.argv[1:] if arguments is None else arguments)
    parser = _parser()
    options = parser.parse_args(before)
    if bool(command) != (options.command in ("run", "trace")):
        parser.error(f"softnpu {options.command} " + ("takes no command behind --" if command else "needs a command behind --: "
                                                      f"softnpu {options.command} -- python train.py"))
    try:
        return {"run": _run, "trace": _trace, "env": _env, "info": _info, "conformance": _conformance}[options.command](options, command)
    except (info.Refused, conformance.Unusable, FileNotFoundError) as error:
        print(f"softnpu: {error}", file=sys.stderr)
        return 2


def _enter(options: argparse.Namespace) -> None:
    """Makes the environment that of a client, and lets softnpu judge the settings before anything is started."""
    os.environ.update(_chosen(options))
    info.check_settings()
    if options.private:
        os.environ["XDG_RUNTIME_DIR"] = tempfile.mkdtemp(prefix="softnpu-")
    for name, near in info.unknown_settings().items():
        print(f"softnpu: nothing reads {name}" + (f"; {near} is meant?" if near else ""), file=sys.stderr)
    os.environ.update(place.client_environment(os.environ))


def _run(options: argparse.Namespace, command: list[str]) -> int:
    _enter(options)
    if options.private:
        try:
            return _status(command)
        finally:
            _remove_private_folder()
    _execute(command)


def _execute(command: list[str]) -> NoReturn:
    """In the place of this process, so that signals and the exit status are the command's own."""
    sys.stdout.flush()
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"softnpu: {command[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(127)


def _status(command: list[str]) -> int:
    """Of a command that is waited for; as a shell says it."""
    try:
        process = subprocess.Popen(command)
    except OSError as error:
        print(f"softnpu: {command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    while True:
        try:
            code = process.wait()
            return code if code >= 0 else 128 - code
        except KeyboardInterrupt:  # the command gets the signal from the terminal, too, and decides
            continue


def _remove_private_folder() -> None:
    shutil.rmtree(os.environ["XDG_RUNTIME_DIR"], ignore_errors=True)


def _trace(options: argparse.Namespace, command: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="softnpu-") as folder:
        file = (options.out or Path(folder, "calls.jsonl")).absolute()
        file.write_text("")  # the library appends
        _enter(options)
        os.environ.update(settings.variables(record=file))
        try:
            code = _status(command)
        finally:
            if options.private:
                _remove_private_folder()
        print(recording.text(recording.summarise([file]), options.all), file=sys.stderr)
    return code


def _env(options: argparse.Namespace, _: list[str]) -> int:
    if options.path:
        if _chosen(options):
            raise info.Refused("env --path names a file and takes no settings; export SOFTNPU_... instead")
        print(place.sourced_file())
        return 0
    os.environ.update(_chosen(options))
    info.check_settings()
    changed = {**_chosen(options), **place.client_environment(os.environ)}
    print("\n".join(f"export {name}={shlex.quote(value)}" for name, value in changed.items()))
    return 0


def _info(options: argparse.Namespace, _: list[str]) -> int:
    os.environ.update(_chosen(options))
    found = info.collect()
    print(json.dumps(found, indent=2) if options.json else info.text(found))
    return 0


def _conformance(options: argparse.Namespace, _: list[str]) -> int:
    library = (options.library or place.library_folder() / "libascendcl.so").absolute()
    if not library.is_file():
        raise conformance.Unusable(f"--library {library} is no file")
    tests = list(conformance.run(library, conformance.names(library), options.seconds))
    print(conformance.text(library, tests))
    return int(any(test.status not in ("ok", "skipped") for test in tests))
