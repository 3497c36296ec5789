"""A server of the dashboard for the time of a test, and questions to it."""

import contextlib
import http.client
import threading

from torch_npu.dashboard.server import Server


@contextlib.contextmanager
def serving(snapshots):
    one = Server(0, snapshots)
    thread = threading.Thread(target=one.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield one
    one.shutdown()
    thread.join()
    one.server_close()


def ask(server, path, method="GET", headers=()):
    """The answer, and the bytes in it."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    connection.request(method, path, headers=dict(headers))
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer, text
