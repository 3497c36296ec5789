"""NPUGraph: a captured training step, replayed with other data, makes the weights of the same steps without a graph."""

import torch

import torch_npu  # noqa: F401


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 1)).npu()


def step(model, x):
    for parameter in model.parameters():
        parameter.grad = None
    model(x).square().mean().backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad


batches = [torch.randn(4, 8, generator=torch.Generator().manual_seed(seed)).npu() for seed in range(4)]
captured, plain = network(), network()
start = [parameter.detach().clone() for parameter in captured.parameters()]
x = batches[0].clone()
side = torch.npu.Stream()
side.wait_stream(torch.npu.current_stream())
with torch.npu.stream(side):
    step(captured, x)
torch.npu.current_stream().wait_stream(side)
graph = torch.npu.NPUGraph()
with torch.npu.graph(graph):
    step(captured, x)
with torch.no_grad():
    for parameter, value in zip(captured.parameters(), start):
        parameter.copy_(value)
for batch in batches:
    x.copy_(batch)
    graph.replay()
    step(plain, batch)
for mine, theirs in zip(captured.parameters(), plain.parameters()):
    torch.testing.assert_close(mine.cpu(), theirs.cpu())
print(f"a training step captured once and replayed {len(batches)} times")
