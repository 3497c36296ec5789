"""ray: it counts the cards by itself, and gives every task and actor cards of its own, in which they compute what the CPU computes."""

import os
from importlib.metadata import version

os.environ["SOFTNPU_DEVICES"] = "2"

import ray
import torch

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
assert ray.cluster_resources().get("NPU") == 2, ray.cluster_resources()
x = torch.randn(8, 8, generator=torch.Generator().manual_seed(0))


@ray.remote(resources={"NPU": 1}, num_cpus=1)
class Card:
    def about(self):
        return ray.get_runtime_context().get_accelerator_ids()["NPU"], os.environ["ASCEND_RT_VISIBLE_DEVICES"], torch.npu.device_count()

    def square(self, x):
        y = x.npu()
        return (y @ y).cpu()


actors = [Card.remote() for _ in range(2)]
cards = ray.get([actor.about.remote() for actor in actors])
assert sorted(visible for _, visible, _ in cards) == ["0", "1"] and all(count == 1 for *_, count in cards), cards
for answer in ray.get([actor.square.remote(x) for actor in actors]):
    torch.testing.assert_close(answer, x @ x)
ray.shutdown()
print(f"ok: ray {version('ray')}: counts 2 cards; an actor on each sees its own and computes what the CPU does")
