"""What docs/ci.md tells people to type: the guide's lines, the files of its example, and the shell lines of its recipes."""

import re
from dataclasses import dataclass
from pathlib import Path

import yaml

PAGE = Path(__file__).resolve().parents[2] / "docs/ci.md"


@dataclass
class Recipe:
    name: str
    scripts: list[str]  # each is a shell script of its own, as the service runs them
    variables: dict[str, str]


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def guide() -> list[str]:
    return _blocks("bash")[0].splitlines()


def files() -> dict[str, str]:
    """The Python blocks by the name that stands in front of them."""
    found = re.findall(r"^`([\w/]+\.py)`[^\n]*:\n\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return dict(found)


def recipes() -> list[Recipe]:
    github, gitlab = map(yaml.safe_load, _blocks("yaml"))
    (job,) = github["jobs"].values()
    runs = [step["run"] for step in job["steps"] if "run" in step]
    (job_of_gitlab,) = gitlab.values()
    script = "\n".join([*job_of_gitlab["before_script"], *job_of_gitlab["script"]])
    return [Recipe("github", runs, github["env"]), Recipe("gitlab", [script], job_of_gitlab["variables"])]
