"""The programs in examples/ run from an empty folder, one after the other as docs/training.md and docs/inference.md tell."""

import pathlib
import subprocess
import sys

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


def run(folder, program, *arguments):
    done = subprocess.run([sys.executable, EXAMPLES / program, *arguments], cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def losses(path):
    return [float(line) for line in path.read_text().split()]


def test_resnet_is_trained_resumed_and_served(tmp_path):
    small = ("--batch-size=4", "--amp=off")
    run(tmp_path, "train_resnet18.py", "--steps=2", *small)
    run(tmp_path, "train_resnet18.py", "--steps=5", *small, "--resume", "--losses=rest.txt")
    assert len(losses(tmp_path / "rest.txt")) == 3
    few = ("--batch-size=2", "--batches=3")
    assert "top 5 as on the CPU in 3 of 3 batches" in run(tmp_path, "infer.py", *few)
    assert "top 5 as on the CPU in 3 of 3 batches" in run(tmp_path, "infer.py", *few, "--script=traced.pt")


def test_character_gpt_learns_and_writes(tmp_path):
    run(tmp_path, "char_gpt.py", "--steps=30", "--losses=losses.txt")
    curve = losses(tmp_path / "losses.txt")
    assert sum(curve[-5:]) < 0.6 * sum(curve[:5])
    assert "20 tokens as on the CPU" in run(tmp_path, "infer.py", "--generate", "--tokens=20")
