"""torch.compile with the backends that generate no code for the card: eager, aot_eager, captured graphs."""

import torch
from rows import each
from torch.nn import functional as F

import torch_npu  # noqa: F401

IN_MODES = ("queue 1",)
torch.manual_seed(0)
X, W = torch.randn(4, 6), torch.randn(6, 6)
LINEAR = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2))


class Branching(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x - 1


class Buffered(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.count += 1
        return x * self.count


PROGRAMS = {
    "elementwise": lambda x: (x.sin() * 2 + x.cos()).relu(),
    "product": lambda x: x @ x.t(),
    "reduction": lambda x: x.softmax(-1).sum(0),
    "in place": lambda x: x.clone().mul_(2).add_(1),
    "views": lambda x: x.t()[1:].reshape(-1, 2),
    "indexing": lambda x: x[:, [0, 2]],
    "assignment": lambda x: torch.ones_like(x).index_put_((torch.tensor([0], device=x.device),), x[0]),
    "loop": lambda x: sum(x * i for i in range(4)),
    "dictionary": lambda x: {"a": x + 1, "b": [x * 2]}["b"][0],
    "factory": lambda x: x + torch.arange(6, device=x.device),
    "item": lambda x: x * x.abs().sum().item(),
    "layer norm": lambda x: F.layer_norm(x, (6,)),
    "attention": lambda x: F.scaled_dot_product_attention(*[x.view(1, 1, 4, 6)] * 3),
    "type": lambda x: (x.half() * 2).float(),
    "cat": lambda x: torch.cat([x, x], 1).chunk(3, 1)[1],
    "cond": lambda x: torch.where(x > 0, x, -x),
}


@each({f"{name}, {backend}": (function, backend) for name, function in PROGRAMS.items() for backend in ("eager", "aot_eager")})
def check_compiled_programs(row):
    function, backend = row
    torch._dynamo.reset()
    found = torch.compile(function, backend=backend)(X.npu())
    assert found.device.type == "npu"
    torch.testing.assert_close(found.cpu(), function(X), rtol=1e-4, atol=1e-5)


BACKENDS = ("eager", "aot_eager", "aot_eager_decomp_partition", "npugraphs")


@each(BACKENDS)
def check_compiled_training(backend):
    import copy

    def run(device, compiles):
        torch._dynamo.reset()
        model = copy.deepcopy(LINEAR).to(device)
        step = torch.compile(model, backend=backend) if compiles else model
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimiser.zero_grad()
            F.mse_loss(step(X.to(device)), torch.zeros(4, 2, device=device)).backward()
            optimiser.step()
        return [parameter.detach().cpu() for parameter in model.parameters()]

    torch.testing.assert_close(run("npu", True), run("cpu", False), rtol=1e-4, atol=1e-5)


@each(["eager", "aot_eager"])
def check_graph_breaks(backend):
    torch._dynamo.reset()
    module = torch.compile(Branching(), backend=backend)
    for x in (X.abs(), -X.abs()):
        torch.testing.assert_close(module(x.npu()).cpu(), Branching()(x))


@each(["eager", "aot_eager"])
def check_buffers_of_compiled_modules(backend):
    torch._dynamo.reset()
    module = torch.compile(Buffered().npu(), backend=backend)
    assert [module(torch.ones(1).npu()).item() for _ in range(3)] == [1, 2, 3]


@each(["eager", "aot_eager"])
def check_dynamic_shapes(backend):
    torch._dynamo.reset()
    count = torch._dynamo.testing.CompileCounterWithBackend(backend)
    function = torch.compile(lambda x: (x * 2).sum(0), backend=count, dynamic=True)
    for rows in (3, 5, 9):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(function(x.npu()).cpu(), (x * 2).sum(0), rtol=1e-4, atol=1e-5)
    assert count.frame_count == 1


@each(["eager", "aot_eager"])
def check_autocast_in_compiled_programs(backend):
    torch._dynamo.reset()

    @torch.compile(backend=backend)
    def product(x, w):
        with torch.autocast("npu", dtype=torch.float16):
            return x @ w

    assert product(X.npu(), W.npu()).dtype == torch.float16


@each(["eager", "aot_eager"])
def check_custom_operators_in_compiled_programs(backend):
    torch._dynamo.reset()
    x = torch.randn(4, 32).half()
    function = torch.compile(lambda t: torch_npu.npu_swiglu(t, dim=-1), backend=backend)
    a, b = x.float().chunk(2, -1)
    torch.testing.assert_close(function(x.npu()).float().cpu(), F.silu(a) * b, rtol=1e-2, atol=1e-2)


def check_exported_programs():
    program = torch.export.export(LINEAR.npu(), (X.npu(),))
    LINEAR.cpu()
    assert any("linear" in str(node.target) for node in program.graph.nodes)


def check_traced_programs():
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(lambda x: x.sin() + 1)(X.npu())
    torch.testing.assert_close(graph(X.npu()).cpu(), X.sin() + 1)


def check_scripts():
    @torch.jit.script
    def scripted(x):
        if x.sum() > 0:
            return x * 2
        return x

    torch.testing.assert_close(scripted(X.abs().npu()).cpu(), X.abs() * 2)


def check_traces():
    traced = torch.jit.trace(LINEAR.npu(), X.npu())
    found = traced(X.npu()).cpu()
    torch.testing.assert_close(found, LINEAR.cpu()(X), rtol=1e-4, atol=1e-5)


def check_fake_tensors_know_the_card():
    from torch._subclasses.fake_tensor import FakeTensorMode

    real = X.npu()
    with FakeTensorMode() as mode:
        x = mode.from_tensor(real)
        assert (x @ x.t()).device == torch.device("npu:0") and (x @ x.t()).shape == (4, 4)
