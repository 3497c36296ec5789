"""torch_geometric: GCN, GAT, GraphSAGE and pooling over batched graphs, trained on npu and CPU: the same losses."""

from importlib.metadata import version

import torch
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GATConv, GCNConv, SAGEConv, global_max_pool, global_mean_pool

generator = torch.Generator().manual_seed(0)


def graph(label):
    edges = torch.randint(8, (2, 20), generator=generator)
    return Data(x=torch.randn(8, 6, generator=generator), edge_index=edges, y=torch.tensor([label]))


graphs = Batch.from_data_list([graph(i % 3) for i in range(12)])


class Network(torch.nn.Module):
    def __init__(self, convolution):
        super().__init__()
        self.first, self.second = convolution(6, 16), convolution(16, 16)
        self.answer = torch.nn.Linear(32, 3)

    def forward(self, data):
        x = self.first(data.x, data.edge_index).relu()
        x = self.second(x, data.edge_index).relu()
        return self.answer(torch.cat([global_mean_pool(x, data.batch), global_max_pool(x, data.batch)], 1))


def losses(convolution, place):
    torch.manual_seed(0)
    model, data = Network(convolution).to(place), graphs.to(place)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    found = []
    for _ in range(5):
        loss = torch.nn.functional.cross_entropy(model(data), data.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.detach())
    assert loss.device.type == place
    return torch.stack(found).cpu()


for convolution in (GCNConv, GATConv, SAGEConv):
    torch.testing.assert_close(losses(convolution, "npu"), losses(convolution, "cpu"), rtol=1e-4, atol=1e-4)
print(f"ok: torch_geometric {version('torch_geometric')}: GCN, GAT and GraphSAGE with pooling: 5 losses each as on the CPU")
