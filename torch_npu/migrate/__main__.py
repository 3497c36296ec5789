"""`python -m torch_npu.migrate convert|analyse|profile|table`.

Exit code 0: done; 1: something failed or is not supported; 2: wrong usage.
"""

import argparse
import sys
from pathlib import Path

from torch_npu.migrate.options import Options
from torch_npu.migrate.progress import Progress
from torch_npu.migrate.project import Refusal


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m torch_npu.migrate", description="Moves sources from CUDA to npu.")
    commands = parser.add_subparsers(dest="command", required=True)

    convert = commands.add_parser("convert", help="rewrite a file or folder, with a report")
    add_convert_arguments(convert)

    analyse = commands.add_parser("analyse", aliases=["analyze"], help="list the torch APIs and operators of sources, and npu's support")
    analyse.add_argument("-i", "--input", type=Path, required=True, help="file or folder")
    analyse.add_argument("-o", "--output", type=Path, help="folder for the reports (default: none are written)")
    analyse.add_argument("--json", type=Path, help="write the result as JSON to this file, - for standard output")
    analyse.add_argument("--fail-on", choices=["unsupported", "fallback", "never"], default="unsupported",
                         help="what makes the exit code 1")  # fmt: skip
    analyse.add_argument("--third-party", action="store_true", help="also read the sources of imported packages")
    analyse.add_argument("--force", action="store_true", help="replace existing reports")

    profile = commands.add_parser("profile", help="run a script and list the operators it reaches, and npu's support")
    profile.add_argument("--device", choices=["cpu", "npu"], default="cpu",
                         help="cpu: as the script runs without a GPU; npu: with cuda redirected to npu")  # fmt: skip
    profile.add_argument("--json", type=Path, help="write the result as JSON to this file")
    profile.add_argument("--fail-on", choices=["unsupported", "fallback", "never"], default="unsupported")
    profile.add_argument("script")
    profile.add_argument("arguments", nargs=argparse.REMAINDER, help="what the script is given")

    commands.add_parser("table", help="print the table CUDA -> npu as Markdown")
    return parser


def add_convert_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-i", "--input", type=Path, required=True, help="file or folder to convert; it is not changed")
    parser.add_argument("-o", "--output", type=Path, required=True, help="file, or folder in which <name>_msft is made")
    parser.add_argument("-s", "--specify-device", action="store_true", help="use the card that DEVICE_ID names")
    parser.add_argument("-m", "--modelarts", action="store_true", help="for ModelArts: accepted, as paths stay as they are")
    parser.add_argument("-v", "--version", help="torch version of the sources: accepted, the installed one is what counts")
    parser.add_argument("--force", action="store_true", help="replace an existing output")
    modes = parser.add_subparsers(dest="mode")
    distributed = modes.add_parser("distributed", help="also make it run on several cards")
    distributed.add_argument("-m", "--main", required=True, help="the file that is run, relative to the input")
    distributed.add_argument("-t", "--target_model", default="model", help="the variable that holds the model (default: model)")


def run_convert(arguments: argparse.Namespace) -> int:
    from torch_npu.migrate import convert

    options = Options(
        specify_device=arguments.specify_device,
        distributed=arguments.mode == "distributed",
        main_file=getattr(arguments, "main", ""),
        target_model=getattr(arguments, "target_model", "model"),
    )
    return convert.run(arguments.input, arguments.output, options, arguments.force, confirm, Progress())


def confirm(path: Path) -> bool:
    """Asks a person; in a pipe there is nobody to ask."""
    return sys.stdin.isatty() and input(f"{path} exists already. Replace it? [y/N] ").strip().lower() in ("y", "yes")


def guarded(function, *arguments) -> int:
    """Runs a command; what makes it impossible becomes one sentence and exit code 1."""
    try:
        return function(*arguments)
    except Refusal as error:
        print(f"error: {error}", file=sys.stderr)
    except OSError as error:
        print(f"error: {error.filename or ''}: {error.strerror}", file=sys.stderr)
    return 1


def main(argv: list[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    if arguments.command == "convert":
        return guarded(run_convert, arguments)
    if arguments.command == "table":
        from torch_npu.migrate.cuda_names import markdown_table

        print(markdown_table(), end="")
        return 0
    if arguments.command == "profile":
        from torch_npu.migrate.profiling import run_script

        return guarded(run_script, arguments.script, arguments.arguments, arguments.device, arguments.json, arguments.fail_on)
    from torch_npu.migrate.analysis.project import run

    return guarded(run, arguments.input, arguments.output, arguments.json, arguments.fail_on, arguments.third_party,
                   arguments.force, confirm, Progress())  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
