"""Programs that a package installs, called as its users call them."""

import subprocess
import sys
from pathlib import Path


def cli(program: str, command: str, **options) -> str:
    """What `program command --option value ...` of this environment prints; if it fails, its last lines are this script's error."""
    arguments = [part for option, value in options.items() for part in (f"--{option}", str(value))]
    done = subprocess.run(
        [Path(sys.executable).with_name(program), command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        sys.exit(done.stdout[-3000:])
    return done.stdout
