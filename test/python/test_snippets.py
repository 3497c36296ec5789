"""What users have been told to type: the snippets and environment settings of the documentation, as they stand there."""

import pytest

QUICK = """
import torch
import torch_npu
x = torch.randn(2, 2).npu(); y = torch.randn(2, 2).npu(); z = x.mm(y); print(z)
"""

MIGRATED = """
import torch, torch_npu
device = torch.device("npu:0"); torch.npu.set_device(device); torch.npu.set_device(0)
tensor = torch.ones(2); tensor = tensor.to('npu:0')
torch.npu.synchronize()
print(tensor)
"""

TRAINING = """
import torch, torch_npu
device = torch.device("npu" if torch.npu.is_available() else "cpu")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)).to(device)
x, y = torch.randn(64, 8).to(device), torch.randint(0, 2, (64,)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
losses = []
for _ in range(20):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0] * 0.7, losses
print(loss)
"""


@pytest.mark.parametrize("snippet", [QUICK, MIGRATED, TRAINING], ids=["quick", "migrated", "training"])
def test_snippet(run, snippet):
    process = run(snippet)
    assert process.returncode == 0, process.stderr
    assert "device='npu:0'" in process.stdout
    assert process.stderr == ""


@pytest.mark.parametrize(
    "setting",
    [
        "TASK_QUEUE_ENABLE=0", "TASK_QUEUE_ENABLE=1", "TASK_QUEUE_ENABLE=2", "ASCEND_LAUNCH_BLOCKING=1",
        "ASCEND_RT_VISIBLE_DEVICES=0,1,2,3", "COMBINED_ENABLE=1", "PYTORCH_NO_NPU_MEMORY_CACHING=1",
    ],
)  # fmt: skip
def test_documented_environment(run, setting):
    process = run(QUICK, **dict([setting.split("=")]))
    assert process.returncode == 0, process.stderr
    assert process.stderr == ""


def test_dumping_data_of_a_program(run, tmp_path):
    process = run(QUICK, ACL_DUMP_DATA="1")
    assert process.returncode == 0 and process.stderr == ""
    assert len(list(tmp_path.glob("npu_dump_*/index.jsonl"))) == 1


@pytest.mark.parametrize("text", ["", "no json", "{", '{"a": 1,}', '{"a" 1}', "[1 2]", '{"a": "b}', "{} {}", '{"a": 1-2}', None])
def test_configuration_of_aclinit_must_be_json(run, tmp_path, text):
    path = tmp_path / "acl.json"
    if text is not None:
        path.write_text(text)
    process = run(QUICK, TORCH_ACL_INIT_CONFIG_PATH=str(path))
    assert process.returncode and f"TORCH_ACL_INIT_CONFIG_PATH={path}" in process.stderr


@pytest.mark.parametrize("text", ["{}", ' {"dump": {"list": [1, -2.5e3, true, null, "a\\"b"]}, "x": []}\n'])
def test_configuration_of_aclinit(run, tmp_path, text):
    (tmp_path / "acl.json").write_text(text)
    assert run(QUICK, TORCH_ACL_INIT_CONFIG_PATH=str(tmp_path / "acl.json")).returncode == 0


def test_training_gives_the_numbers_of_the_cpu(run):
    code = TRAINING.replace("print(loss)", "print(*(round(loss, 4) for loss in losses))")
    on_npu = run(code)
    on_cpu = run(code.replace('"npu" if torch.npu.is_available() else "cpu"', '"cpu"'))
    assert on_npu.returncode == on_cpu.returncode == 0, on_npu.stderr + on_cpu.stderr
    for left, right in zip(on_npu.stdout.split(), on_cpu.stdout.split(), strict=True):
        assert float(left) == pytest.approx(float(right), rel=1e-3)
