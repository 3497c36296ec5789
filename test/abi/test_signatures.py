"""What our rows pass to an aclnn operator is what the official client passes: number, order and C types of the arguments.

The compiler checks each call against abi/aclnn.yaml; this compares abi/aclnn.yaml with the official client's calls."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from codegen import aclnn  # noqa: E402

# Where the list's type is a guess from the text of the call, and the client was seen to pass ours.
GUESSED = {"aclnnMoeTokenPermute": "actual_num_out_tokens is a number: the schema of npu_moe_token_permute says int"}


def official() -> dict[str, list[str] | None]:
    lines = (Path(__file__).parent / "official_signatures.txt").read_text().splitlines()
    found = {}
    for line in lines:
        if not line.startswith("#"):
            name, colon, types = line.partition(":")
            found[name] = types.strip().split(", ") if colon else None
    return found


def agree(ours: list[str], known: list[str] | None) -> bool:
    """A null that the client passes may stand for any object."""
    if known is None or len(ours) != len(known):
        return False
    return all(a == b or (b.startswith("null pointer") and a.startswith("acl")) for a, b in zip(ours, known))


def c_types(signature: aclnn.Signature) -> list[str]:
    return [re.sub(r"const |\*", "", t).strip() for t in signature.c_types]


@pytest.fixture(scope="module")
def signatures():
    return {name: s for name, s in aclnn.load(ROOT / "abi").items() if not name.startswith("softnpu")}


def test_every_signature_has_the_official_clients_c_types(signatures):
    known = official()
    different = {name: (c_types(s), known.get(name)) for name, s in signatures.items() if not agree(c_types(s), known.get(name))}
    assert different.keys() == GUESSED.keys()


def test_names_without_a_signature_are_those_whose_arguments_were_not_seen(signatures):
    assert set(official()) - set(signatures) == {name for name, types in official().items() if types is None}
