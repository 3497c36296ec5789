"""ultralytics: a small YOLO, its answers, its loss with gradients, and boxes after non-maximum suppression, against the CPU."""

import os
from importlib.metadata import version

os.environ.setdefault("YOLO_OFFLINE", "true")

import torch
from ultralytics.cfg import get_cfg
from ultralytics.nn.tasks import DetectionModel
from ultralytics.utils.nms import non_max_suppression

generator = torch.Generator().manual_seed(0)
pictures = torch.rand(2, 3, 64, 64, generator=generator)
labels = {"batch_idx": torch.tensor([0.0, 0.0, 1.0]), "cls": torch.tensor([[1.0], [2.0], [0.0]]),
          "bboxes": 0.25 + 0.5 * torch.rand(3, 4, generator=generator)}  # fmt: skip


def run(place):
    torch.manual_seed(0)
    model = DetectionModel("yolov8n.yaml", nc=3, verbose=False)
    model.args = get_cfg()
    model.to(place).train()
    loss, _ = model({"img": pictures.to(place), **{name: value.to(place) for name, value in labels.items()}})
    loss.sum().backward()
    gradient = model.model[0].conv.weight.grad.cpu().flatten()
    with torch.no_grad():
        answers = model.eval()(pictures.to(place))[0]
        boxes = non_max_suppression(answers, conf_thres=0.001, max_det=20)
    assert answers.device.type == place and boxes[0].device.type == place
    return loss.detach().cpu(), gradient, answers.cpu(), torch.cat(boxes).cpu()


for npu, cpu in zip(run("npu"), run("cpu"), strict=True):
    torch.testing.assert_close(npu, cpu, rtol=2e-3, atol=2e-3)
print(f"ok: ultralytics {version('ultralytics')}: YOLOv8n: answers, loss, gradients and suppressed boxes as on the CPU")
