"""Names of the official launcher's rendezvous, over torch's own store."""

from datetime import timedelta

from torch.distributed import TCPStore
from torch.distributed.run import parse_args as torch_parse_cmd_args

__all__ = ["ParallelStore", "torch_parse_cmd_args"]


class ParallelStore(TCPStore):
    """torch's TCPStore, whose libuv server handles all connections in one event loop.

    It needs no agent between the ranks and the server: agent_run, agent_pid and enable_tiered have no effect.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 29500,
        world_size: int = -1,
        agent_run: bool = False,
        agent_pid: int = -1,
        is_server: bool = False,
        enable_tiered: bool = False,
        timeout: timedelta = timedelta(seconds=300),
        wait_workers: bool = True,
        multi_tenant: bool = False,
    ) -> None:
        super().__init__(
            host,
            port,
            world_size if world_size > 0 else None,
            is_server,
            timeout,
            wait_for_workers=wait_workers,
            multi_tenant=multi_tenant,
        )
