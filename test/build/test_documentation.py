"""docs/: every environment variable that the code reads is on docs/environment.md, and every link leads somewhere."""

import re

import pytest

NAME = re.compile(r'"((?:TORCH_NPU|TORCH|SOFTNPU|PYTORCH|ASCEND|ACL|TASK|HCCL|COMBINED|OMP|NPU|RANK)[A-Z0-9_]*)"')


@pytest.mark.parametrize("config", ["csrc/acl/config.cpp", "softnpu/runtime/config.cpp"])
def test_variables_are_listed(root, config):
    page = (root / "docs/environment.md").read_text()
    missing = [name for name in NAME.findall((root / config).read_text()) if f"`{name}`" not in page]
    assert missing == []


def test_links_lead_to_files(root):
    broken = []
    for page in [*root.glob("*.md"), *root.glob("docs/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            if not (page.parent / target).exists():
                broken.append(f"{page.name}: {target}")
    assert broken == []
