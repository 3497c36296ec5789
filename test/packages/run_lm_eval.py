"""lm-eval: a multiple-choice task of its own, with a local model loaded onto the npu by device_map."""

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import lm_eval
from lm_eval.tasks import TaskManager
from tiny import make_model

TASK = """
task: tiny_choice
dataset_path: json
dataset_kwargs:
  data_files: {{test: {file}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: answer
metric_list:
  - {{metric: acc}}
"""

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    rows = [{"question": f"count {i}", "choices": ["one two", "three"], "answer": i % 2} for i in range(8)]
    (folder / "rows.json").write_text("\n".join(map(json.dumps, rows)))
    (folder / "tiny.yaml").write_text(TASK.format(file=folder / "rows.json"))
    model = make_model(folder / "model")
    scores = {}
    for device in ("npu:0", "cpu"):
        found = lm_eval.simple_evaluate(
            model="hf", model_args=f"pretrained={model},dtype=float32", device=device, tasks=["tiny_choice"], batch_size=4,
            task_manager=TaskManager(include_path=str(folder)), bootstrap_iters=0, log_samples=True,
        )  # fmt: skip
        scores[device] = [sample["filtered_resps"] for sample in found["samples"]["tiny_choice"]]
        assert found["config"]["device"] == device, found["config"]


def values(rows):
    return [float(answer[0]) for row in rows for answer in row]


worst = max(abs(a - b) for a, b in zip(values(scores["npu:0"]), values(scores["cpu"]), strict=True))
if worst > 1e-4:
    sys.exit(f"log-likelihoods differ from the CPU's by {worst}")
print(f"ok: lm_eval {version('lm_eval')}: multiple choice on npu:0, log-likelihoods equal to the CPU's within {worst:.1e}")
